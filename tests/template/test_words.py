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
    text = _spoken(path.read_text())
    instead = list(_PHRASES.values())
    return [
        f"{path.relative_to(ROOT)}: …{text[max(0, match.start() - 40) : match.end() + 20]}…"
        f" Write: {instead[int(str(match.lastgroup)[1:])]}"
        for match in _PHRASE.finditer(text)
    ]


def _spoken(text: str) -> str:
    """Return a text in one line, without the signs of comments, with the words of identifiers apart."""
    text = re.sub(r"\s+(?:#: |# |// |\* )?", " ", text)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")


@pytest.mark.slow
def test_words_are_those_of_a_native_engineer() -> None:
    suffixes = ".md", ".py", ".yaml", ".json", ".toml", ".js", ".html", ".css", ".go"
    paths = [path for path in sources(*suffixes) if path.name != Path(__file__).name and "vendor" not in path.parts]

    found = [line for path in paths for line in _found(path)]

    assert {path.suffix for path in paths} == set(suffixes)
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "def test_whoever_asks() -> None:",
        "const isTold = true",
        "# that is\n# told",
        "// so\n// many",
        "/*\n * all is\n * well",
    ],
)
def test_a_phrase_is_found_in_identifiers_and_across_lines_of_comments(text: str) -> None:
    assert _PHRASE.search(_spoken(text))
