"""cfn-lint still rejects the mistakes that it is kept for; `make lint` runs it on the template itself.

From 1.52 on it passes a time-out that Lambda refuses, from 1.54 on wrong runtimes and architectures as well: it no
longer looks at what SAM makes of a template. Hence the pin, and these broken templates, small because each is linted.
"""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache_evidence import network
from burstcache_evidence.visitor import template_of
from support.project import ROOT

_SOUND = """\
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Conditions:
  IsFrankfurt: !Equals [!Ref AWS::Region, eu-central-1]
Globals:
  Function:
    Runtime: python3.14
    Architectures: [arm64]
Resources:
  DeadLetters:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 60
  Worker:
    Type: AWS::Serverless::Function
    Condition: IsFrankfurt
    Properties:
      Handler: worker.handler
      CodeUri: src/
      Timeout: 900
      Environment:
        Variables:
          QUEUE_URL: !Ref DeadLetters
          QUEUE_ARN: !GetAtt DeadLetters.Arn
          PREFIX: !Sub /${AWS::StackName}/worker
"""
_MISTAKES = {
    "a time-out beyond Lambda's limit": ("Timeout: 900", "Timeout: 901", "E3034"),
    "an architecture that does not exist": ("Architectures: [arm64]", "Architectures: [arm]", "E3030"),
    "a runtime that does not exist": ("Runtime: python3.14", "Runtime: python9.9", "E3030"),
    "a function without a handler": ("      Handler: worker.handler\n", "", "E0001"),
    "a reference to nothing": ("!Ref DeadLetters\n", "!Ref Letters\n", "E1020"),
    "an attribute that does not exist": ("!GetAtt DeadLetters.Arn\n", "!GetAtt DeadLetters.Url\n", "E1010"),
    "a property that does not exist": ("VisibilityTimeout:", "VisibleTimeout:", "E3002"),
    "a condition that does not exist": ("Condition: IsFrankfurt\n", "Condition: IsLondon\n", "E3015"),
    "a substitution without Fn::Sub": ("PREFIX: !Sub /", "PREFIX: /", "E1029"),
}


def findings(text: str) -> list[str]:
    from cfnlint.api import ManualArgs, lint  # seconds, which only the process that runs these tests should spend

    return [f"{match.rule.id} {match.message}" for match in lint(text, config=ManualArgs(regions=["eu-central-1"]))]


def test_a_sound_template_has_no_findings() -> None:
    assert findings(_SOUND) == []


def test_the_templates_of_the_evidence_are_sound() -> None:
    outputs = {"StateSettings": "{}", "HolderPolicyArn": "arn:aws:iam::123456789012:policy/holder"}
    stack: Any = SimpleNamespace(
        output=lambda name: outputs.get(name, "sg-00000001"),
        functions={"ProxyFunction": "proxy"},
        configuration=lambda name: {"VpcConfig": {"SubnetIds": ["subnet-00000001"]}},
    )

    assert findings(json.dumps(network.TEMPLATE)) == []
    assert findings(json.dumps(template_of(stack))) == []


@pytest.mark.parametrize(("right", "wrong", "rule"), _MISTAKES.values(), ids=_MISTAKES)
def test_a_mistake_is_rejected(right: str, wrong: str, rule: str) -> None:
    assert _SOUND.count(right) == 1

    found = findings(_SOUND.replace(right, wrong))

    assert rule in {finding.partition(" ")[0] for finding in found}, found


def test_the_linter_is_the_pinned_one() -> None:
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]

    assert f"cfn-lint=={version('cfn-lint')}" in pinned
