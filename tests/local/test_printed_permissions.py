"""The policies that `burstcache permissions` prints suffice for a deployment and a burst, and no action is spare."""

from __future__ import annotations

import copy
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.messages.self_test import SELF_TEST, problems
from burstcache_cli.permissions import boundary_policy, deploy_policy
from burstcache_cli.role_policies import StackPolicies
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.errors import GuardrailError
from burstcache_local.iam.creation import StackCreation
from burstcache_local.iam.guardrail import Guardrail
from burstcache_local.template.pipeline import load_template
from support.policies import THESIS
from support.project import ROOT
from support.waiting import until

_TEMPLATE = ROOT / "template.yaml"
_BOUND = "arn:aws:iam::123456789012:policy/bound"
_STACKS: tuple[dict[str, str], ...] = (
    {"Relay": "none"},
    {
        **THESIS,
        "MonthlyBudgetUsd": "9",
        "PoolMembers": "8",
        "RedisOn": "ec2",
        "Relay": "nlb",
        "StateDatabases": "orders",
        "StateOn": "ec2",
        "StatePersistence": "aof",
        "Writes": "iam",
    },
)


def _policies(parameters: Mapping[str, str]) -> StackPolicies:
    return StackPolicies(_TEMPLATE, parameters, "burstcache")


def _without(policy: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Return a policy without one action."""
    smaller = copy.deepcopy(dict(policy))
    for statement in smaller["Statement"]:
        statement["Action"] = [each for each in statement["Action"] if each != action]
    smaller["Statement"] = [each for each in smaller["Statement"] if each["Action"]]
    assert smaller != policy
    return smaller


def _options(parameters: Mapping[str, str], boundary: Mapping[str, Any], folder: Path) -> LocalOptions:
    return LocalOptions(
        parameters={**parameters, "PermissionsBoundaryArn": _BOUND},
        policies={"bound": boundary},
        deployer=deploy_policy(_policies(parameters)),
        origin=ROOT / "tools/burstcache_local/samples",
        run_dir=folder,
        boot_s=0.2,
        stop_s=0.2,
    )


def _tier(cloud: LocalCloud) -> str:
    with urllib.request.urlopen(f"{cloud.front_url}/objects/hello.txt") as answer:
        return str(answer.headers["X-Cache-Tier"])


def _creation(parameters: Mapping[str, str]) -> StackCreation:
    template = load_template(
        _TEMPLATE, parameters, vpc_block="127.0.0.0/16", relay_address="127.0.0.1", region="us-east-2"
    )
    return StackCreation(template, "burstcache", "us-east-2", {})


@pytest.mark.parametrize("parameters", _STACKS)
def test_a_stack_deploys_passes_its_self_test_and_caches_under_them(parameters: dict[str, str], tmp_path: Path) -> None:
    with LocalCloud(_options(parameters, boundary_policy(_policies(parameters)), tmp_path)) as cloud:
        until(lambda: _tier(cloud) == "redis")
        tested = cloud.invoke("SelfTestFunction", {"op": SELF_TEST, "run": "run"})

    assert len(tested["tried"]) > 10
    assert problems(tested) == []


@pytest.mark.parametrize("action", ["dynamodb:Query", "events:PutEvents"])
def test_a_boundary_without_one_action_breaks_the_self_test(action: str, tmp_path: Path, refusals: list[str]) -> None:
    parameters = _STACKS[0]
    boundary = _without(boundary_policy(_policies(parameters)), action)

    with LocalCloud(_options(parameters, boundary, tmp_path)) as cloud:
        tested = cloud.invoke("SelfTestFunction", {"op": SELF_TEST, "run": "run"})

    assert problems(tested) != []
    denial = f"because no permissions boundary allows the {action} action"
    assert any(denial in each for each in refusals)
    refusals.clear()


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("iam:PassRole", "ProxyFunction"),
        ("ec2:RunInstances", "RedisInstance1"),
        ("ec2:CreateVolume", "StateVolume1"),
        ("lambda:CreateFunction", "CacheFunction"),
        ("lambda:InvokeFunction", "SelfTest"),
        ("states:CreateStateMachine", "RedisNode"),
        ("ecs:CreateService", "RelayService"),
        ("budgets:ModifyBudget", "Budget"),
    ],
)
def test_a_deploying_role_without_one_action_cannot_create_the_stack(action: str, resource: str) -> None:
    parameters = _STACKS[1]
    policy, creation = deploy_policy(_policies(parameters)), _creation(parameters)
    Guardrail(deployer=policy).check(creation)

    with pytest.raises(GuardrailError, match=rf"{resource}\w* \({action} on"):
        Guardrail(deployer=_without(policy, action)).check(creation)


@pytest.mark.parametrize("parameters", _STACKS)
def test_every_call_that_creates_a_resource_is_named_by_the_deploying_policy(parameters: dict[str, str]) -> None:
    creation = _creation(parameters)
    policy, called = deploy_policy(_policies(parameters)), {need.action for _, need in creation.needs()}

    assert len(called) > 20
    for action in called:
        with pytest.raises(GuardrailError, match=rf"\({action} on"):
            Guardrail(deployer=_without(policy, action)).check(creation)
