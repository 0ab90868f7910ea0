"""Each threat that the security page names is held by tests that exist."""

from __future__ import annotations

import re

import pytest

from support.project import ROOT

_PAGE = (ROOT / "docs" / "operate" / "security.md").read_text()
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| Threat |")
]
_FILE = re.compile(r"`(tests/[\w/]+\.py)`: ((?:`test_\w+`(?:, )?)+)")


def test_the_page_has_threats() -> None:
    assert len(_ROWS) > 20
    assert _PAGE.count("| Threat |") == _PAGE.count("\n### ")


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[0])
def test_a_threat_is_held_by_tests_of_the_files_that_it_names(row: list[str]) -> None:
    threat, measure, held_by = row
    named = [(path, name) for path, names in _FILE.findall(held_by) for name in re.findall(r"`(\w+)`", names)]

    assert threat
    assert measure
    assert named
    assert held_by.count("`test_") == len(named)
    assert [each for each in named if f"def {each[1]}(" not in (ROOT / each[0]).read_text()] == []
