"""cfn-lint, and proof that the pinned version still rejects mistakes.

From 1.52 on it passes a time-out that Lambda refuses, from 1.54 on wrong runtimes and architectures as well: it no
longer looks at what SAM makes of a template.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from cfnlint.api import ManualArgs, lint

_REGIONS = ["eu-central-1", "us-east-1"]
_MISTAKES = {
    "a time-out beyond Lambda's limit": ("Timeout: 900", "Timeout: 901", "E3034"),
    "an architecture that does not exist": ("Architectures: [arm64]", "Architectures: [arm]", "E3030"),
    "a runtime that does not exist": ("Runtime: python3.14", "Runtime: python9.9", "E3030"),
    "a function without a handler": ("      Handler: burstcache.handlers.janitor.handler\n", "", "E0001"),
    "a reference to nothing": ("TABLE_NAME: !Ref CacheTable\n", "TABLE_NAME: !Ref Table\n", "E1020"),
    "an attribute that does not exist": ("!GetAtt UndeliveredEvents.Arn\n", "!GetAtt UndeliveredEvents.Url\n", "E1010"),
    "a property that does not exist": ("SecurityGroupEgress:", "SecurityGroupExit:", "E3002"),
    "a condition that does not exist": ("Condition: UsesAlb\n", "Condition: UsesNlb\n", "E8002|E3015"),
    "a substitution without Fn::Sub": ("LogGroupName: !Sub /ecs/", "LogGroupName: /ecs/", "E1029"),
}


def findings(text: str, region: str) -> list[str]:
    return [f"{match.rule.id} {match.message}" for match in lint(text, config=ManualArgs(regions=[region]))]


@pytest.mark.parametrize("region", _REGIONS)
def test_the_template_has_no_findings(text: str, region: str) -> None:
    assert findings(text, region) == []


@pytest.mark.parametrize(("right", "wrong", "rules"), _MISTAKES.values(), ids=_MISTAKES)
def test_a_mistake_is_rejected(text: str, right: str, wrong: str, rules: str) -> None:
    assert right in text

    found = findings(text.replace(right, wrong, 1), _REGIONS[0])

    assert {finding.partition(" ")[0] for finding in found} & set(rules.split("|")), found


def test_the_linter_is_the_pinned_one(root: Path) -> None:
    pinned = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]

    assert f"cfn-lint=={version('cfn-lint')}" in pinned
