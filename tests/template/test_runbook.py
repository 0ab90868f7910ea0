"""The runbook's form: from a symptom to an entry that is read at a glance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

_MOST_ENTRIES, _MOST_WORDS = 10, 60


@pytest.fixture(scope="module")
def runbook(root: Path) -> str:
    return (root / "docs/operate/runbook.md").read_text()


@pytest.fixture(scope="module")
def entries(runbook: str) -> dict[str, str]:
    """The entries by title."""
    return dict(part.split("\n", 1) for part in runbook.split("\n## ")[1:])


def test_entries_are_few_and_short(entries: dict[str, str]) -> None:
    words = {title: len(re.sub(r"\]\([^)]*\)", "]", text).split()) for title, text in entries.items()}

    assert 0 < len(words) <= _MOST_ENTRIES
    assert {title: count for title, count in words.items() if count > _MOST_WORDS} == {}


def test_every_entry_is_found_from_a_symptom_in_their_order(runbook: str, entries: dict[str, str]) -> None:
    linked = re.findall(r"^\|.*\[(\d+)\]\(#([\w-]+)\)", runbook, re.M)

    anchors = [re.sub(r"[^\w -]", "", title).replace(" ", "-").lower() for title in entries]
    assert [(number, anchor) for number, anchor in linked] == [(each.partition("-")[0], each) for each in anchors]


def test_every_name_is_that_of_a_resource_an_output_or_a_parameter(runbook: str, template: dict[str, Any]) -> None:
    known = {*template["Parameters"], *template["Outputs"], *template["Resources"], "SelfTest", "Account"}

    named = set(re.findall(r"`([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+)`", runbook))

    assert named
    assert named - known == set()


def test_operations_begin_with_a_link_to_it(root: Path) -> None:
    assert "(runbook.md)" in (root / "docs/operate/operations.md").read_text().partition("\n## ")[0]
