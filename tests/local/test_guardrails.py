"""Guardrails of a company refuse the default stack, and let it pass with parameters that fit it to the account."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from burstcache_cli.permissions import boundary_policy
from burstcache_cli.role_policies import StackPolicies
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.errors import GuardrailError, LocalCloudError
from burstcache_local.iam.creation import StackCreation
from burstcache_local.iam.guardrail import Guardrail, guardrail_in
from burstcache_local.template.pipeline import load_template
from support.project import ROOT
from support.waiting import until

_TEMPLATE = ROOT / "template.yaml"
_FOLDER = ROOT / "examples/guardrails"
_TAGS = {"acme/cost-centre": "42", "Name of the owner": "Ada"}
_BOUND = "arn:aws:iam::123456789012:policy/bound"
_REGISTRY = "123456789012.dkr.ecr.us-east-2.amazonaws.com"
_ON_EC2 = {"RedisOn": "ec2", "StateOn": "ec2", "StateDatabases": "orders"}


@dataclass(frozen=True)
class Account:
    """An account with a guardrail, the parameters that fit a stack to it, and what it refuses without them."""

    guardrail: str
    fitting: Mapping[str, str]
    refused: Mapping[str, str]  # logical id → statement
    others: Mapping[str, str] = field(default_factory=dict)  # parameters in both cases
    tags: Mapping[str, str] = field(default_factory=dict)  # of the stack

    def policy(self) -> dict[str, Any]:
        return guardrail_in(_FOLDER / f"{self.guardrail}.json")

    def __str__(self) -> str:
        return self.guardrail


_ACCOUNTS = (
    Account(
        "ipv4-only",
        {"Network": "ipv4"},
        {"ProxyFunction": "FunctionsOverIpv4", "RelayBalancer": "BalancersOverIpv4"},
    ),
    Account(
        "permissions-boundary",
        {"PermissionsBoundaryArn": _BOUND},
        dict.fromkeys(("ProxyFunctionRole", "RedisTaskRole", "RedisNodeRole"), "RolesWithTheBoundary"),
    ),
    Account(
        "own-images",
        {"RelayImage": f"{_REGISTRY}/nats:2", "NodeImage": "ami-0123456789abcdef0"},
        {"RelayTask": "ContainersFromOurRegistry", "RedisInstance1": "OurMachineImages"},
        others=_ON_EC2,
    ),
    Account(
        "functions-in-vpc",
        {"FunctionsInVpc": "all"},
        dict.fromkeys(("OriginFunction", "SchedulerFunction"), "FunctionsInAVpc"),
    ),
    Account(
        "tags",
        {"ResourceTags": "acme/cost-centre=42"},
        {"RedisInstance1": "CostCentreOfInstances", "StateInstance1": "CostCentreOfInstances"},
        others=_ON_EC2,
        tags=_TAGS,
    ),
    Account("no-dashboards", {"CreateDashboard": "no"}, {"Dashboard": "NoDashboards"}),
)


def _creation(account: Account, parameters: Mapping[str, str]) -> StackCreation:
    values = {"Relay": "nlb", **account.others, **parameters}
    template = load_template(_TEMPLATE, values, vpc_block="127.0.0.0/16", relay_address="127.0.0.1", region="us-east-2")
    return StackCreation(template, "burstcache", "us-east-2", account.tags)


@pytest.mark.parametrize("account", _ACCOUNTS, ids=str)
def test_the_default_stack_is_refused_by_name(account: Account) -> None:
    with pytest.raises(GuardrailError) as refused:
        Guardrail(account.policy()).check(_creation(account, {}))

    for resource, statement in account.refused.items():
        assert f"{resource} (" in str(refused.value)
        assert f"denied by {statement})" in str(refused.value)


@pytest.mark.parametrize("account", _ACCOUNTS, ids=str)
def test_each_parameter_is_needed_and_all_of_them_suffice(account: Account) -> None:
    for left_out in account.fitting:
        others = {name: value for name, value in account.fitting.items() if name != left_out}
        with pytest.raises(GuardrailError):
            Guardrail(account.policy()).check(_creation(account, others))

    Guardrail(account.policy()).check(_creation(account, account.fitting))


@pytest.mark.parametrize(
    "account",
    [
        pytest.param(each, marks=() if each.guardrail == "permissions-boundary" else pytest.mark.weekly)
        for each in _ACCOUNTS
    ],
    ids=str,
)
def test_the_stack_that_fits_deploys_and_caches(account: Account, tmp_path: Path) -> None:
    parameters = {**account.others, **account.fitting}
    bound = {"bound": boundary_policy(StackPolicies(_TEMPLATE, {"Relay": "nlb", **parameters}, "burstcache"))}
    options = LocalOptions(
        parameters=parameters,
        guardrail=account.policy(),
        tags=account.tags,
        policies=bound if _BOUND in parameters.values() else {},
        origin=ROOT / "tools/burstcache_local/samples",
        run_dir=tmp_path,
        boot_s=0.2,
        stop_s=0.2,
    )

    with LocalCloud(options) as cloud:
        until(lambda: _tier(cloud) == "redis")


def _tier(cloud: LocalCloud) -> str:
    with urllib.request.urlopen(f"{cloud.front_url}/objects/hello.txt") as answer:
        return str(answer.headers["X-Cache-Tier"])


_NO_TASKS = {"Sid": "NoTasks", "Effect": "Deny", "Action": "ecs:RunTask", "Resource": "*"}
_COST_CENTRE_IN_REQUESTS = {**_NO_TASKS, "Condition": {"Null": {"aws:RequestTag/acme/cost-centre": "true"}}}
_OF_TAGS = guardrail_in(_FOLDER / "tags.json")


@pytest.mark.parametrize(
    ("policy", "tags", "statement"),
    [
        pytest.param({"Statement": [_NO_TASKS]}, {}, "NoTasks", marks=pytest.mark.weekly),
        (_OF_TAGS, {}, "CostCentreOfTasks"),
        ({"Statement": [_COST_CENTRE_IN_REQUESTS]}, _TAGS, "NoTasks"),  # tasks get tags that no request has
    ],
    ids=["all", "without the stack's tags", "by the tags of a request"],
)
def test_a_guardrail_denies_calls_of_roles_that_their_policies_allow(
    policy: dict[str, Any], tags: Mapping[str, str], statement: str, tmp_path: Path, refusals: list[str]
) -> None:
    """Tiers below Redis serve a key whose node may not start, so the refusal is in the log alone."""
    tiers: set[str] = set()
    with LocalCloud(_on_fargate(policy, tags, tmp_path)) as cloud:

        def is_refused() -> bool:
            tiers.add(_tier(cloud))
            return bool(refusals)

        until(is_refused)
        tiers.add(_tier(cloud))

    assert tiers <= {"s3", "lambda"}  # a cache function goes on for as long as its reads pay for it
    assert all("ecs:RunTask" in each and f"service control policy: {statement}" in each for each in refusals)
    refusals.clear()


def test_a_task_whose_definition_has_the_stacks_tags_starts_and_gets_them(tmp_path: Path) -> None:
    with LocalCloud(_on_fargate(_OF_TAGS, _TAGS, tmp_path)) as cloud:
        until(lambda: _tier(cloud) == "redis")
        ecs, cluster = cloud.client("ecs"), cloud.function_variables("RedisControlFunction")["TASK_CLUSTER"]
        tasks = ecs.list_tasks(cluster=cluster)["taskArns"]
        (task,) = ecs.describe_tasks(cluster=cluster, tasks=tasks, include=["TAGS"])["tasks"]

    assert {tag["key"]: tag["value"] for tag in task["tags"]} == _TAGS


def _on_fargate(policy: dict[str, Any], tags: Mapping[str, str], folder: Path) -> LocalOptions:
    samples = ROOT / "tools/burstcache_local/samples"
    return LocalOptions(guardrail=policy, tags=tags, origin=samples, run_dir=folder, boot_s=0.2)


def test_a_region_that_is_denied_refuses_every_resource() -> None:
    policy = json.loads((_FOLDER / "permissions-boundary.json").read_text())
    (regions,) = [each for each in policy["Statement"] if each["Sid"] == "OurRegions"]
    elsewhere = {**regions, "Condition": {"StringNotEquals": {"aws:RequestedRegion": "eu-central-1"}}}

    with pytest.raises(GuardrailError, match=r"CacheTable .* denied by OurRegions"):
        Guardrail({"Statement": [elsewhere]}).check(_creation(Account("", {}, {}), {}))


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is not a policy"), ("{}", "is not a policy"), (None, "cannot be read")]
)
def test_a_file_that_is_no_policy_is_refused_in_one_line(text: str | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "guardrail.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(LocalCloudError, match=problem):
        guardrail_in(file)
