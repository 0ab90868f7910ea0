"""The project's English avoids phrases that a native engineer would have to read twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.project import ROOT
from support.sources import sources

_PHRASES = {
    "whoever": "name the actor",
    "tell whether": 'a boolean is "True if …" or "Whether …"',
    "tells whether": "shows whether, decides whether",
    "is said": "is printed, is reported",
    "are said": "are printed, are reported",
    "so many": "this many, or the number",
}
_PHRASE = re.compile(r"\b(" + "|".join(_PHRASES) + r")\b", re.IGNORECASE)


@pytest.mark.parametrize("folder", ["docs"])
def test_the_words_are_those_of_a_native_engineer(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()!r}: {_PHRASES[match.group().lower()]}"
        for path in sources(".md", ".py", ".yaml", ".json", ".toml", under=folder)
        if path.name != Path(__file__).name
        for match in _PHRASE.finditer(" ".join(path.read_text().split()))
    ]

    assert found == []
