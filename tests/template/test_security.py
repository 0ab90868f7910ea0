"""The security page: tests that exist hold each threat, and each finding of a scanner has its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from support.project import ROOT

_PAGE = (ROOT / "docs" / "operate" / "security.md").read_text()
_TEMPLATES = sorted([ROOT / "template.yaml", *ROOT.glob("examples/*/template.yaml")])


def _section(title: str) -> str:
    return _PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _rows(section: str, first: str) -> list[list[str]]:
    """Return the cells of a section's tables, whose headers begin with a cell."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| ") and not line.startswith(f"| {first} |")
    ]


_THREATS = _section("Threats")
_ROWS = _rows(_THREATS, "Threat")
_FILE = re.compile(r"`(tests/[\w/]+\.py)`: ((?:`test_\w+`(?:, )?)+)")


def test_the_page_has_threats() -> None:
    assert len(_ROWS) > 20
    assert _THREATS.count("| Threat |") == _THREATS.count("\n### ")


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[0])
def test_a_threat_is_held_by_tests_of_the_files_that_it_names(row: list[str]) -> None:
    threat, measure, held_by = row
    named = [(path, name) for path, names in _FILE.findall(held_by) for name in re.findall(r"`(\w+)`", names)]

    assert threat
    assert measure
    assert named
    assert held_by.count("`test_") == len(named)
    assert [each for each in named if f"def {each[1]}(" not in (ROOT / each[0]).read_text()] == []


@pytest.mark.parametrize("row", _rows(_section("What scanners say"), "Finding"), ids=lambda row: row[0])
def test_a_finding_is_counted_and_mended_or_defended_in_a_sentence(row: list[str]) -> None:
    finding, count, answer = row

    assert "`" in finding
    assert int(count) > 0
    assert re.fullmatch(r"(Defended|Mended): .+\.", answer)


def test_every_bucket_refuses_public_access() -> None:
    buckets = {
        (path.parent.name, name): resource["Properties"].get("PublicAccessBlockConfiguration", {})
        for path in _TEMPLATES
        for name, resource in yaml_parse(path.read_text())["Resources"].items()
        if resource["Type"] == "AWS::S3::Bucket"
    }

    assert len(buckets) >= 3
    for bucket, block in buckets.items():
        assert len(block) == 4, bucket
        assert all(value is True for value in block.values()), bucket


def _security_group_rules(part: Any) -> Iterator[dict[str, Any]]:
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if isinstance(part, dict) and "IpProtocol" in part:
        yield part
    for each in parts:
        yield from _security_group_rules(each)


def test_every_rule_of_a_security_group_has_a_description() -> None:
    rules = [rule for path in _TEMPLATES for rule in _security_group_rules(yaml_parse(path.read_text()))]

    assert len(rules) > 20
    assert [rule for rule in rules if not rule.get("Description")] == []
