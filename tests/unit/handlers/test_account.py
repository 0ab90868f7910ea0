"""CloudFormation's request about the account: what is missing is made, what is too small is named."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber
from moto import mock_aws

from burstcache.adapters.account import Account
from burstcache.adapters.clients import Clients
from burstcache.handlers import account as handler
from support.clock import ManualClock
from support.project import ROOT

_ROLE = "AWSServiceRoleForECS"


class Desk:
    """An account, and what CloudFormation has heard. moto knows neither Lambda's settings nor these quotas."""

    def __init__(self) -> None:
        clients = Clients("patient", session=boto3.Session("id", "key", region_name="eu-west-1"))
        self.iam, self.clock = clients.make("iam"), ManualClock()
        self.quotas = clients.make("service-quotas")
        self.settings = Stubber(clients.functions)
        self.account = Account(self.iam, self.quotas, _Offerings(), clients.functions, self.clock)  # type: ignore[arg-type]
        self.answers: list[dict[str, Any]] = []

    def take(self, request: urllib.request.Request, timeout: float) -> Any:
        assert isinstance(request.data, bytes)
        self.answers.append(json.loads(request.data))
        return nullcontext()

    def ask(self, kind: str, *, concurrency: int = 10, **properties: str) -> dict[str, Any]:
        """Send a sample of CloudFormation's requests; return the answer."""
        event = json.loads((ROOT / f"events/account/{kind}.json").read_text())
        event["ResourceProperties"] |= properties
        self.settings.add_response("get_account_settings", {"AccountLimit": {"ConcurrentExecutions": concurrency}})
        with self.settings:
            handler.handler(event, None)
        return self.answers[-1]


class _Offerings:
    """EC2, which has everything in zone a and nothing elsewhere: moto takes a second to read its own list."""

    def describe_instance_type_offerings(self, *, LocationType: str, Filters: Any) -> Any:
        assert (LocationType, Filters[0]["Name"]) == ("availability-zone", "instance-type")
        return {"InstanceTypeOfferings": [{"Location": "eu-west-1a"}]}

    def describe_subnets(self, *, SubnetIds: list[str]) -> Any:
        states = {"subnet-6": ["disassociated", "associated"], "subnet-5": ["disassociated"], "subnet-4": []}
        return {
            "Subnets": [
                {
                    "SubnetId": subnet,
                    "Ipv6CidrBlockAssociationSet": [
                        {"Ipv6CidrBlockState": {"State": state}} for state in states[subnet]
                    ],
                }
                for subnet in SubnetIds
            ]
        }


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with mock_aws():
        desk = Desk()
        monkeypatch.setattr(handler, "_account", lambda: desk.account)
        monkeypatch.setattr(urllib.request, "urlopen", desk.take)
        yield desk


def roles(desk: Desk) -> list[str]:
    return [role["RoleName"].lower() for role in desk.iam.list_roles()["Roles"]]


def test_the_role_of_ecs_is_made_where_it_is_missing_and_is_given_time_to_spread(desk: Desk) -> None:
    answer = desk.ask("create")

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "Account")
    assert roles(desk) == [_ROLE.lower()]
    assert desk.clock.monotonic_s() == 20


def test_a_role_that_exists_costs_no_time(desk: Desk) -> None:
    desk.iam.create_role(RoleName=_ROLE, AssumeRolePolicyDocument="{}")

    assert desk.ask("create")["Status"] == "SUCCESS"
    assert roles(desk) == [_ROLE.lower()]
    assert desk.clock.monotonic_s() == 0


def test_two_stacks_may_make_the_role_at_once(desk: Desk) -> None:
    with Stubber(desk.iam) as iam:
        iam.add_client_error("get_role", "NoSuchEntity", expected_params={"RoleName": _ROLE})
        iam.add_client_error("create_service_linked_role", "InvalidInput", expected_params={"AWSServiceName": ANY})

        assert desk.ask("create")["Status"] == "SUCCESS"


def test_without_a_relay_no_role_is_made(desk: Desk) -> None:
    assert desk.ask("create", EcsRole="false", HotKeys="0", TaskVcpus="0")["Status"] == "SUCCESS"
    assert roles(desk) == []


def test_an_account_that_is_too_small_gets_a_sentence_for_each_limit(desk: Desk) -> None:
    with Stubber(desk.quotas) as quotas:
        for service, code, value in (("ec2", "L-1216C47A", 5.0), ("fargate", "L-36FBB829", 0.0)):
            asked = {"ServiceCode": service, "QuotaCode": code}
            quotas.add_response("get_service_quota", {"Quota": {"Value": value}}, asked)

        answer = desk.ask("create", HotKeys="3", PoolMembers="8", Nodes="3", Zones=["eu-west-1a", "eu-west-1b"])  # type: ignore[arg-type]

    assert answer["Status"] == "FAILED"
    said = answer["Reason"].split(". ")
    assert [sentence.split()[0] for sentence in said] == ["MaxHotKeys", "PoolMembers", "3", "the", "EC2"]
    assert said[0].startswith("MaxHotKeys 3 is too much for the account's 10 concurrent Lambda executions")
    assert said[-1].startswith("EC2 has no t4g.micro in zone eu-west-1b")


def test_subnets_without_ipv6_are_named_with_the_parameter_for_them(desk: Desk) -> None:
    refused, accepted = (
        desk.ask("create", EcsRole="false", DualStackSubnets=subnets)  # type: ignore[arg-type]
        for subnets in (["subnet-4", "subnet-5", "subnet-6"], ["subnet-6"])
    )

    assert refused["Status"] == "FAILED"
    assert refused["Reason"].startswith("no IPv6 block in subnet-4, subnet-5, which functions need to reach AWS")
    assert refused["Reason"].endswith("or set Network to ipv4")
    assert accepted["Status"] == "SUCCESS"


def test_databases_of_state_need_room_as_nodes_do(desk: Desk) -> None:
    with Stubber(desk.quotas) as quotas:
        for value in (5.0, 1.0):
            quotas.add_response("get_service_quota", {"Quota": {"Value": value}})

        answer = desk.ask("create", Databases="orders,carts")

    assert answer["Reason"].startswith("3 x t4g.micro have 6 vCPUs and the account may run 5: use fewer or smaller")


@pytest.mark.parametrize(
    ("kind", "codes"), [("fargate-spot", ["L-36FBB829", "L-3032A538"]), ("fargate", ["L-3032A538"])]
)
def test_nodes_on_fargate_are_compared_with_the_quotas_of_what_they_may_run_on(
    desk: Desk, kind: str, codes: list[str]
) -> None:
    with Stubber(desk.quotas) as quotas:
        for code in codes:
            asked = {"ServiceCode": "fargate", "QuotaCode": code}
            quotas.add_response("get_service_quota", {"Quota": {"Value": 3.0}}, asked)

        answer = desk.ask("create", Nodes="0", HotKeys="0", TaskVcpus="0", NodeTasks="2", NodeTask=f"{kind}:16GB")

    assert answer["Status"] == "FAILED"
    assert [f"2 x {kind}:16GB" in sentence for sentence in answer["Reason"].split(". ")] == [True] * len(codes)


def test_databases_on_fargate_are_counted_by_their_names(desk: Desk) -> None:
    with Stubber(desk.quotas) as quotas:
        quotas.add_response("get_service_quota", {"Quota": {"Value": 1.0}})

        answer = desk.ask(
            "create", Nodes="0", HotKeys="0", TaskVcpus="0", StateTasks="orders,carts", StateTask="fargate:8GB"
        )

    assert answer["Reason"].startswith("2 x fargate:8GB take 2 vCPU of Fargate on demand and the account may run 1")


@pytest.mark.parametrize(("concurrency", "busy"), [(10, "8"), (1000, "800")])
def test_the_answer_says_from_where_on_concurrency_is_nearly_used_up(desk: Desk, concurrency: int, busy: str) -> None:
    assert desk.ask("create", concurrency=concurrency)["Data"] == {"BusyConcurrency": busy}


def test_concurrency_that_is_reserved_for_the_proxy_must_leave_enough_for_all_others(desk: Desk) -> None:
    answer = desk.ask("create", ProxyConcurrency="5")

    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith(
        "ProxyConcurrency 5 of the account's 10 concurrent Lambda executions leaves less"
    )


def test_a_refusal_of_iam_is_reported_with_its_reason(desk: Desk) -> None:
    with Stubber(desk.iam) as iam:
        iam.add_client_error("get_role", "AccessDenied", "the boundary forbids it")

        answer = desk.ask("create")

    assert answer["Status"] == "FAILED"
    assert "the boundary forbids it" in answer["Reason"]


def test_nothing_is_deleted_with_the_stack(desk: Desk) -> None:
    desk.ask("create")

    assert desk.ask("delete")["Status"] == "SUCCESS"
    assert roles(desk) == [_ROLE.lower()]
