"""What the documents name exists, and what exists is documented."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from burstcache.core.parameters import Parameters
from burstcache_cli.cli import COMMANDS

_DOCUMENTS = (
    "README.md",
    "docs/understand/architecture.md",
    "docs/understand/decisions.md",
    "docs/operate/operations.md",
    "docs/understand/papers.md",
)
_PATH = re.compile(r"`((?:src/|tools/|docs/|tests/|benchmarks/|events/|statemachines/)[\w./*-]*)`")


def test_every_command_is_in_the_readme(root: Path) -> None:
    readme = (root / "README.md").read_text()

    assert [command.name for command in COMMANDS if f"`burstcache {command.name}" not in readme] == []


def test_every_make_target_with_a_purpose_is_documented(root: Path) -> None:
    targets = re.findall(r"^([\w-]+):.*## ", (root / "Makefile").read_text(), re.MULTILINE)
    documents = "".join((root / name).read_text() for name in ("README.md", "docs/evidence/measurements.md"))

    assert targets
    assert [target for target in targets if f"make {target}" not in documents] == []


def test_every_policy_override_is_in_the_readme(root: Path) -> None:
    readme = (root / "README.md").read_text()

    names = [field.name.replace("_us", "_s") for field in fields(Parameters)]

    assert [name for name in names if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("document", _DOCUMENTS)
def test_every_path_that_is_named_exists(root: Path, document: str) -> None:
    named = _PATH.findall((root / document).read_text())

    assert [path for path in named if not list(root.glob(path.rstrip("/")))] == []
