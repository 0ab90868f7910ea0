"""`burstcache permissions` prints what a stack's roles need, no less and no more, and what its deployment needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import boto3
import pytest

from burstcache_cli.cli import main
from burstcache_cli.deploy_actions import ACTIONS
from burstcache_cli.permissions import MOST_CHARACTERS, boundary_policy, deploy_policy, size_of
from burstcache_cli.role_policies import AWS_MANAGED, StackPolicies, Statement, listed, name_pattern
from burstcache_local.iam.policies import Need, granting
from support.project import ROOT

_TEMPLATE = ROOT / "template.yaml"
_KEY = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d"
_STATE = {"StateDatabases": "orders", "StatePersistence": "aof"}
_EVERYTHING = {
    **_STATE,
    "ExpressZone": "use1-az4",
    "KmsKeyArn": _KEY,
    "MonthlyBudgetUsd": "9",
    "Policy": "thesis",
    "PoolHub": "fargate",
    "PoolMembers": "20",
    "RedisOn": "ec2",
    "Relay": "nlb",
    "StateOn": "ec2",
    "Tracing": "Active",
    "Writes": "iam",
}
_IN_YOUR_VPC = {"Network": "ipv4", "VpcId": "vpc-0a1b", "SubnetIds": "subnet-0a1b", "RelaySubnetIds": "subnet-0a1b"}
_CHOICES: tuple[dict[str, str], ...] = (
    {},
    _EVERYTHING,
    {"StateDatabases": "orders", "StateOn": "fargate"},
    {"Relay": "direct"},
)
# IAM's names of services whose clients have another name, and actions that are no operations of a client.
_CLIENTS = {"elasticloadbalancing": "elbv2", "states": "stepfunctions"}
_NO_OPERATIONS = re.compile(
    r"apigateway:(DELETE|GET|PATCH|POST|PUT|TagResource|UntagResource)|budgets:(Modify|View)Budget|logs:.*LogDelivery|logs:.*LogDeliveries|s3(express)?:.*"
    r"|kms:Encrypt|route53:AssociateVPCWithHostedZone"
)


@cache
def stack(choice: int, region: str = "") -> StackPolicies:
    return StackPolicies(_TEMPLATE, _CHOICES[choice], "burstcache", region)


def needs_of(statement: Statement) -> list[Need]:
    """Return calls that a statement allows: every action on each resource, under its conditions."""
    context = {
        key: tuple(str(each).replace("*", "x").replace("True", "true") for each in listed(accepted))
        for keys in statement.condition.values()
        for key, accepted in keys.items()
    }
    return [
        Need(
            action,
            resource.replace("*", "x") if resource != "*" else "*",
            {key: value[:1] for key, value in context.items()},
        )
        for action in statement.actions
        for resource in statement.resources
    ]


@pytest.mark.parametrize("region", ["", "us-east-1"])
@pytest.mark.parametrize("choice", range(len(_CHOICES)))
def test_every_statement_of_every_role_is_within_the_boundary(choice: int, region: str) -> None:
    statements = list(stack(choice, region).statements())

    boundary = boundary_policy(stack(choice, region))

    assert len({statement.role for statement in statements}) > 10
    lacking = [need for each in statements for need in needs_of(each) if granting([boundary], need) is None]
    assert lacking == []


@pytest.mark.parametrize("choice", range(len(_CHOICES)))
def test_the_boundary_allows_nothing_that_no_role_does_but_keys_of_parameter_store(choice: int) -> None:
    used = {action for statement in stack(choice).statements() for action in statement.actions}

    allowed = {action for each in boundary_policy(stack(choice))["Statement"] for action in each["Action"]}

    assert allowed - used <= {"kms:Decrypt", "kms:Encrypt"}
    assert "kms:Decrypt" in allowed
    assert allowed >= used


def test_a_role_decrypts_a_password_under_the_boundary_through_parameter_store_alone() -> None:
    boundary, key = boundary_policy(stack(0)), "arn:aws:kms:eu-west-1:123456789012:key/1"

    def may(service: str) -> bool:
        return granting([boundary], Need("kms:Decrypt", key, {"kms:ViaService": (service,)})) is not None

    assert may("ssm.eu-west-1.amazonaws.com")
    assert not may("s3.eu-west-1.amazonaws.com")


@pytest.mark.parametrize("choice", range(len(_CHOICES)))
def test_the_boundary_is_one_managed_policy(choice: int) -> None:
    assert size_of(boundary_policy(stack(choice))) <= MOST_CHARACTERS


@pytest.mark.parametrize("choice", range(len(_CHOICES)))
def test_the_deploying_policy_fits_a_role_inline_or_as_two_managed_policies(choice: int) -> None:
    policy = deploy_policy(stack(choice))
    first, *others = policy["Statement"]

    assert size_of(policy) <= 10_240
    assert size_of({**policy, "Statement": [first]}) <= MOST_CHARACTERS
    assert size_of({**policy, "Statement": others}) <= MOST_CHARACTERS


def test_every_resource_type_of_the_template_has_its_actions() -> None:
    types = {resource["Type"] for choice in range(len(_CHOICES)) for resource in stack(choice).resources.values()}

    assert {each for each in types if each.startswith("AWS::")} - ACTIONS.keys() == set()
    assert all(each.startswith(("AWS::", "Custom::")) for each in types)


def test_every_action_that_cloudformation_takes_is_an_operation_of_its_service() -> None:
    session = boto3.Session("none", "none", region_name="us-east-1")

    @cache
    def operations(service: str) -> set[str]:
        client = session.client(_CLIENTS.get(service, service))
        return set(client.meta.service_model.operation_names)

    actions = {action for each in ACTIONS.values() for action in each if not _NO_OPERATIONS.fullmatch(action)}
    named = [action.split(":") for action in sorted(actions)]

    assert len(named) > 150
    assert [f"{service}:{name}" for service, name in named if name not in operations(service)] == []


def test_a_type_that_is_created_and_deleted_has_actions_for_both() -> None:
    creating = re.compile(
        r":(Create|Put|Run|Register|Associate|Attach|Authorize|Add|Publish|Modify|Set|Subscribe|POST)"
    )
    ending = re.compile(
        r":(Delete|Terminate|Deregister|Disassociate|Detach|Revoke|Remove|Modify|Set|Unsubscribe|DELETE)"
    )

    for type_, actions in ACTIONS.items():
        assert any(creating.search(action) for action in actions), type_
        assert any(ending.search(action) for action in actions), type_


def test_the_deploying_role_passes_roles_of_its_stack_to_their_services_alone() -> None:
    policy = deploy_policy(stack(1))

    def may(role: str, service: str) -> bool:
        need = Need("iam:PassRole", f"arn:aws:iam::123456789012:role/{role}", {"iam:PassedToService": (service,)})
        return granting([policy], need) is not None

    for service in ("lambda", "states", "ecs-tasks", "ec2"):
        assert may("burstcache-ProxyFunctionRole-1ABC", f"{service}.amazonaws.com")
    assert not may("admin", "lambda.amazonaws.com")
    assert not may("burstcache-ProxyFunctionRole-1ABC", "glue.amazonaws.com")


def test_the_deploying_role_changes_identities_of_its_stack_alone() -> None:
    allowed = [
        each for each in deploy_policy(stack(1))["Statement"] if any(a.startswith("iam:") for a in each["Action"])
    ]

    resources = {resource for each in allowed for resource in listed(each["Resource"])}

    assert resources == {
        *(f"arn:aws:iam::*:{kind}/burstcache-*" for kind in ("instance-profile", "policy", "role")),
        "arn:aws:iam::*:role/aws-service-role/*",
    }


def test_a_long_stack_name_is_cut_as_cloudformation_may_cut_it() -> None:
    assert name_pattern("burstcache") == "burstcache-*"
    assert name_pattern("a-stack-with-a-very-long-name") == "a-stack-with-a-very-long*"


def test_statements_of_aws_managed_policies_are_those_of_aws() -> None:
    from moto.iam.aws_managed_policies import aws_managed_policies_data  # 1 MB of JSON

    documents: Mapping[str, Any] = json.loads(aws_managed_policies_data)

    for name, actions in AWS_MANAGED.items():
        (statement,) = documents[name]["Document"]["Statement"]
        assert sorted(statement["Action"]) == sorted(actions)


def test_the_command_prints_the_policy_and_says_whether_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "--boundary", "--template", str(_TEMPLATE)]) == 0
    printed = capsys.readouterr()

    assert json.loads(printed.out) == boundary_policy(stack(0))
    assert "of a managed policy's 6,144 characters" in printed.err

    assert main(["permissions", "--deploy", "--template", str(_TEMPLATE), "--parameter", "RedisOn=ec2"]) == 0
    printed = capsys.readouterr()

    assert "ec2:RunInstances" in json.loads(printed.out)["Statement"][0]["Action"]
    assert "inline policy" in printed.err


def test_a_parameter_that_the_template_refuses_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "--deploy", "--template", str(_TEMPLATE), "--parameter", "RedisOn=mainframe"]) == 2

    assert "'mainframe' is not one of" in capsys.readouterr().err
