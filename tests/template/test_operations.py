"""Facts in the operations guide about files, commands and costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def guide(root: Path) -> str:
    return (root / "docs/operate/operations.md").read_text()


def test_every_sample_event_is_named(guide: str, root: Path) -> None:
    samples = sorted((root / "events").glob("*/*.json"))

    missing = [path.name for path in samples if f"{path.name}`" not in guide]

    assert samples
    assert missing == []


def test_every_sample_event_that_is_named_exists(guide: str, root: Path) -> None:
    names = {path.name for path in (root / "events").glob("*/*.json")}

    named = set(re.findall(r"([a-z0-9_]+\.json)`", guide)) - {"env.json", "evidence.json"}

    assert named - names == set()


def test_every_function_is_invoked_locally(guide: str, functions: dict[str, Any]) -> None:
    assert set(re.findall(r"^- `(\w+Function)`", guide, re.MULTILINE)) == set(functions)


def test_the_folders_of_samples_are_the_handlers(root: Path, functions: dict[str, Any]) -> None:
    modules = [properties["Handler"].removesuffix(".handler") for properties in functions.values()]
    handlers = {module.removesuffix(".handler").rpartition(".")[2] for module in modules}

    assert {path.name for path in (root / "events").iterdir() if path.is_dir()} == handlers


def test_every_alarm_is_explained(guide: str, resources: dict[str, Any]) -> None:
    alarms = {name for name, part in resources.items() if part["Type"] == "AWS::CloudWatch::Alarm"}

    assert set(re.findall(r"^### `(\w+Alarm)`$", guide, re.MULTILINE)) == alarms
