"""The bugs planted to test the checkers still fit the sources."""

from __future__ import annotations

import ast

import pytest

from consistency.bugs import BUGS, Bug, planted
from support.project import ROOT


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_bug_can_be_planted_and_is_python(bug: Bug) -> None:
    text = (ROOT / bug.file).read_text()

    wrong = planted(text, bug)

    assert wrong != text
    ast.parse(wrong)


def test_a_bug_whose_place_has_changed_is_named() -> None:
    with pytest.raises(ValueError, match=f"has 0 times what {BUGS[0].name} replaces; expected: once"):
        planted("something else", BUGS[0])
