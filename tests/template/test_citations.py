"""Every document, section, rule and test that a docstring, a comment or a document cites exists.

A citation is a path in backquotes, followed by a heading in quotes or a rule's number if it means a part of the page:
`docs/understand/lifecycle.md`, "Interleavings"; `docs/understand/lifecycle.md`, rule 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from support.project import ROOT
from support.sources import sources

_CITED = re.compile(r'`?(docs/[\w/-]+\.md)`?(?:(?:,| has| says)? "([^"`]+)"|, rules? ([\d, and]+\d|\d))?')
_NAMELESS = re.compile(r"simulator's rules|design rule|protocol's table|\(rule \d|(?<!, )(?<!\w)rule \d", re.IGNORECASE)
# What a bare "section 4.2" is a section of; `docs/understand/papers.md` names the papers.
_SOURCES = re.compile(r"thesis|Buner 2022|Wang 2020|Kumar 2022|Rosa 2022|RFC \d+", re.IGNORECASE)
_SECTION = re.compile(r"\b(?:sections?|appendix|chapter) [A-Z]?[\d.]*\d")
_FILE = re.compile(r"`((?:src|tools|tests|benchmarks|statemachines|events|instance)/[\w./-]+\.\w+)`")
_TEST = re.compile(r"`(test_\w+)`")


@cache
def _joined(path: Path) -> str:
    """Return the file's text without line breaks and without the signs of comments between its words."""
    return re.sub(r"\s+(?:#: |# )?", " ", path.read_text())


@pytest.fixture(scope="module")
def citations() -> Sequence[tuple[str, str, str, str]]:
    """Return all citations: the citing file, the document, its heading and its rules."""
    return [
        (str(path.relative_to(ROOT)), document, heading, rules)
        for path in sources(".py", ".md", ".yaml", ".json", ".toml")
        for document, heading, rules in _CITED.findall(_joined(path))
    ]


@pytest.mark.slow
def test_every_document_that_is_cited_exists(citations: Sequence[tuple[str, str, str, str]]) -> None:
    missing = {(where, document) for where, document, _, _ in citations if not (ROOT / document).is_file()}

    assert missing == set()


def test_every_file_that_code_cites_exists() -> None:
    cited = {(str(path.relative_to(ROOT)), file) for path in sources(".py") for file in _FILE.findall(path.read_text())}

    assert cited
    assert {item for item in cited if not (ROOT / item[1]).is_file()} == set()


def test_every_heading_that_is_cited_exists(citations: Sequence[tuple[str, str, str, str]]) -> None:
    cited = {(where, document, heading) for where, document, heading, _ in citations if heading}

    missing = {item for item in cited if item[2] not in _headings(item[1])}

    assert cited
    assert missing == set()


def test_every_rule_that_is_cited_exists(citations: Sequence[tuple[str, str, str, str]]) -> None:
    cited = {(where, document, rule) for where, document, _, rules in citations for rule in re.findall(r"\d+", rules)}

    missing = {item for item in cited if item[2] not in _rules(item[1])}

    assert cited
    assert missing == set()


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["src", "tools", "tests", "benchmarks"])
def test_no_rule_or_section_is_cited_without_its_document(folder: str) -> None:
    nameless = []
    for path in sources(".py", under=folder):
        if path.name == Path(__file__).name:
            continue
        text = _joined(path)
        nameless += [(str(path.relative_to(ROOT)), found.group()) for found in _NAMELESS.finditer(text)]
        nameless += [
            (str(path.relative_to(ROOT)), text[max(0, found.start() - 60) : found.end()])
            for found in _SECTION.finditer(text)
            if not _SOURCES.search(text, max(0, found.start() - 300), found.end())
        ]

    assert nameless == []


def test_every_test_that_a_document_names_exists() -> None:
    defined = {
        name for path in sources(".py", under="tests") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    named = {name for path in sources(".md") for name in _TEST.findall(path.read_text())}

    assert named
    assert named - defined == set()


def _headings(document: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", (ROOT / document).read_text(), re.MULTILINE))


def _rules(document: str) -> set[str]:
    """Return the numbers of the rules: the numbered items under the heading "Rules"."""
    _, _, rules = (ROOT / document).read_text().partition("\n## Rules\n")
    return set(re.findall(r"^(\d+)\. ", rules.partition("\n## ")[0], re.MULTILINE))
