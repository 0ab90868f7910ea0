"""Programs of instances and containers: the template has the text of their files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from instance.__main__ import embed
from support.node_machine import user_data
from support.project import ROOT

_FOLDER = ROOT / "instance"


def _entry_point(task: dict[str, Any]) -> str:
    (container,) = task["Properties"]["ContainerDefinitions"]
    return str(container["EntryPoint"][-1])


def _heredoc(resources: dict[str, Any], program: str) -> str:
    found = re.search(rf"^cat > /usr/local/sbin/{program} <<'(\w+)'\n(.*?\n)\1\n", user_data(resources), re.M | re.S)
    assert found
    return found[2]


def test_the_template_has_the_text_of_every_program(resources: dict[str, Any]) -> None:
    programs = {path.name: path.read_text() for path in _FOLDER.iterdir() if path.suffix in (".py", ".sh")}
    del programs["__main__.py"]

    embedded = {
        "burstcache_node.py": _heredoc(resources, "burstcache-node"),
        "burstcache_state.py": resources["StateProgram"]["Properties"]["Value"],
        "pool_hub.py": _entry_point(resources["PoolHubTask"]),
        "relay.sh": _entry_point(resources["RelayTask"]),
    }

    assert embedded == programs, "`make template` writes the programs into the template"


@pytest.mark.parametrize("name", ["burstcache_node.py", "relay.sh"])
def test_a_changed_program_replaces_its_old_text_alone(text: str, tmp_path: Path, name: str) -> None:
    for path in _FOLDER.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / name).write_text("first\n\n  second\n")

    changed = embed(text, tmp_path)

    assert re.search(r"^( +)first\n\n\1  second\n", changed, re.MULTILINE)
    assert len(text.splitlines()) - len(changed.splitlines()) == len((_FOLDER / name).read_text().splitlines()) - 3
    assert embed(changed) == text


def test_a_program_in_user_data_has_nothing_that_cloudformation_would_substitute(text: str, tmp_path: Path) -> None:
    for path in _FOLDER.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "burstcache_node.py").write_text('print("${AWS::Region}")\n')

    with pytest.raises(ValueError, match=re.escape("instance/burstcache_node.py: CloudFormation would substitute ${")):
        embed(text, tmp_path)
