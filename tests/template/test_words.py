"""The project's English avoids phrases that a native engineer would have to read twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.project import ROOT
from support.sources import sources

_PHRASES = {
    r"whoever|whomever": "name the actor",
    r"tells? whether": 'a boolean is "True if …" or "Whether …"; a program shows or decides whether',
    r"(?:is|are) (?:said|told)(?! apart)": "is printed, is reported, gets",
    r"so many": "this many, or the number",
    r"besides?": "next to, in addition to, other than",
    r"comes? to (?:nothing|the same)|in the manner of": "becomes, is, ends, as",
    r"has nothing to say": "is empty, is ignored",
    r"all is well|is not so|NOT SO": "is in order, failed",
    r"who (?:finds|reads|joins|sees|waits|runs|wants|measures|comes)": "a writer that finds, …",
    r"takes? note of|is asked of": "notes, is required of",
    r"known = settings\(": "settings",
}
_PHRASE = re.compile("|".join(rf"\b(?P<p{i}>{phrase})\b" for i, phrase in enumerate(_PHRASES)), re.IGNORECASE)


def _found(path: Path) -> list[str]:
    text = re.sub(r"\s+(?:#: |# )?", " ", path.read_text())
    instead = list(_PHRASES.values())
    return [
        f"{path.relative_to(ROOT)}: …{text[max(0, match.start() - 40) : match.end() + 20]}…"
        f" Write: {instead[int(str(match.lastgroup)[1:])]}"
        for match in _PHRASE.finditer(text)
    ]


@pytest.mark.slow
def test_words_are_those_of_a_native_engineer() -> None:
    paths = [path for path in sources(".md", ".py", ".yaml", ".json", ".toml") if path.name != Path(__file__).name]

    found = [line for path in paths for line in _found(path)]

    assert paths
    assert found == []
