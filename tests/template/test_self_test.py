"""The self-test comes last, covers every function, needs no permission of its own, and notices each that is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from moto.core import set_initial_no_auth_action_count

from benchmarks.support.variables import VARIABLES
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.control.health_checks import run
from burstcache.control.self_test import Function, checks_of
from burstcache.core.messages.self_test import is_self_test
from support.aws import BUCKET, BUS, REGION, TABLE, clients, make_instance, make_stack, mocked_aws
from support.deployed import deployed
from support.waiting import LIMIT_S
from template.test_graph import graph
from template.test_policies import granted

_FUNCTIONS: dict[str, Function] = {
    "ProxyFunction": "proxy",
    "WriterFunction": "writer",
    "SchedulerFunction": "scheduler",
    "CacheFunction": "cache",
    "RedisControlFunction": "redis_control",
    "JanitorFunction": "janitor",
    "OriginFunction": "origin",
    "BudgetFunction": "budget",
    "StateFunction": "state",
}
# What a self-test needs of a function's permissions: the rest is tried by work alone.
_TRIED = {
    "ProxyFunction": {"dynamodb:Query", "s3:GetObject", "events:PutEvents", "ssm:GetParameter"},
    "WriterFunction": {"s3:PutObject"},
    "SchedulerFunction": {"dynamodb:GetItem", "dynamodb:UpdateItem", "states:StartExecution"},
    "CacheFunction": {
        *("dynamodb:GetItem", "dynamodb:UpdateItem", "s3:GetObject", "events:PutEvents"),
        *("states:SendTaskFailure", "ssm:GetParameter"),
    },
    "RedisControlFunction": {
        *("dynamodb:GetItem", "dynamodb:UpdateItem", "s3:GetObject", "states:SendTaskFailure"),
        *("states:StartExecution", "ec2:DescribeInstances", "ec2:StartInstances", "ec2:StopInstances"),
        "ssm:GetParameter",
    },
    "JanitorFunction": {
        *("dynamodb:Query", "states:DescribeExecution", "states:ListExecutions", "ec2:DescribeInstances"),
    },
    "OriginFunction": {"dynamodb:GetItem"},
    "BudgetFunction": {"dynamodb:PutItem"},
    "StateFunction": {
        *("dynamodb:GetItem", "dynamodb:UpdateItem", "states:SendTaskFailure", "states:StartExecution"),
    },
}
Denied = dict[str, str]


class Aws:
    """The stack's AWS side, where functions may do what a policy allows."""

    def __init__(self) -> None:
        make_stack()
        clients().secrets.put_parameter(Name="/redis", Value="password", Type="SecureString")
        machine = f"arn:aws:states:{REGION}:123456789012:stateMachine:machine"
        self.variables = VARIABLES | {
            "TABLE_NAME": TABLE,
            "BUCKET_NAME": BUCKET,
            "ORIGIN_PREFIX": "",
            "ORIGIN_FUNCTION_NAME": "origin",
            "BUS_NAME": BUS,
            "AWS_REGION": REGION,
            "KEY_LIFECYCLE_ARN": machine,
            "REDIS_NODE_ARN": machine,
            "REDIS_ALWAYS_ON_NODES": "0",
            "REDIS_NODES": f"node-1={make_instance()}@127.0.0.1:9",
            "STATE_NODES": f"state-orders={make_instance()}@127.0.0.1:9",
            "REDIS_USER": "reader",
            "REDIS_PASSWORD_PARAMETER": "/redis",
            "REDIS_CA_PEM": "",
            "RELAY_PASSWORD_PARAMETER": "/redis",
            "REDIS_INSTANCE_TYPE": "t4g.micro",
            "CACHE_MEMORY_MB": "256",
        }
        iam = boto3.client("iam")
        iam.create_user(UserName="function")
        key = iam.create_access_key(UserName="function")["AccessKey"]
        self._iam = iam
        session = boto3.Session(key["AccessKeyId"], key["SecretAccessKey"], region_name=REGION)
        self._clients = Clients("control", session=session)

    def denied(self, function: Function, actions: set[str]) -> Denied:
        """Return the parts that a self-test finds to be forbidden, and what it says."""
        statement = {"Effect": "Allow", "Action": ["sts:GetCallerIdentity", *sorted(actions)], "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self._iam.put_user_policy(UserName="function", PolicyName="own", PolicyDocument=policy)
        relay = {} if function == "cache" else {"RELAY_URL": ""}
        made = checks_of(function, self.variables | relay, self._clients, SystemClock(), "run")
        # There is no relay here, and moto does not accept boto3's signatures for Lambda.
        trials = [each for each in made if not each.part.startswith(("function ", "relay"))]

        @set_initial_no_auth_action_count(0)  # type: ignore[untyped-decorator]
        def tested() -> Denied:
            tried = run(trials, SystemClock(), within_s=LIMIT_S)["tried"]
            return {each["part"]: each["problem"] for each in tried if "lacks a permission" in each["problem"]}

        return tested()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with mocked_aws():
        yield Aws()


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_may_try_all_that_it_works_with(name: str, functions: Mapping[str, Any], aws: Aws) -> None:
    assert aws.denied(_FUNCTIONS[name], granted(functions[name])) == {}


@pytest.mark.parametrize(("name", "action"), [(name, action) for name in _TRIED for action in sorted(_TRIED[name])])
def test_a_permission_that_is_missing_is_found(name: str, action: str, functions: Mapping[str, Any], aws: Aws) -> None:
    (problem,) = set(aws.denied(_FUNCTIONS[name], granted(functions[name]) - {action}).values())

    assert f"not authorized to perform: {action}" in problem or action.startswith("s3:")
    assert "the organisation's policies with template.yaml" in problem


def test_every_function_that_works_with_others_is_tested(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"MonthlyBudgetUsd": "20", "StateDatabases": "orders", "Writes": "iam"})

    listed = resources["SelfTestFunction"]["Properties"]["Environment"]["Variables"]["FUNCTIONS"]["Fn::Join"][1]

    assert {function["Ref"] for function in listed} == set(_FUNCTIONS)
    assert list(_FUNCTIONS) == list(_TRIED)


@pytest.mark.parametrize("answers", [{}, {"Relay": "direct"}, {"Relay": "none"}, {"ExpressZone": "use1-az4"}], ids=str)
def test_the_self_test_waits_for_all_that_it_calls(cloudformation: dict[str, Any], answers: dict[str, str]) -> None:
    resources = deployed(cloudformation, answers)
    needs = graph(resources)

    waited, waiting = set[str](), ["SelfTest"]
    while waiting:
        name = waiting.pop()
        if name not in waited:
            waited.add(name)
            waiting += needs[name]

    called = ("EC2::Route", "EC2::VPCEndpoint", "EC2::Instance", "ECS::Service", "StepFunctions::StateMachine")
    types = {f"AWS::{type_}" for type_ in (*called, "Lambda::Function", "Lambda::Permission", "Events::EventBus")}
    late = {name for name, part in resources.items() if part["Type"] in types} - waited
    assert {
        name for name in late if not name.startswith(("Account", "Credentials", "ExpressBucketFunction", "Public"))
    } <= {
        *(
            "ProxyFunctionAnythingElsePermission",
            "ExecutionStoppedPermission",
            "JanitorPermission",
            "ExecutionStoppedPermission",
            "InstanceStoppedPermission",
            "SelfTestPermission",
        )  # who calls us is not tried
    }


def test_the_schedule_asks_for_a_self_test(cloudformation: dict[str, Any]) -> None:
    [target] = deployed(cloudformation, {})["SelfTestRule"]["Properties"]["Targets"]

    assert target["Arn"] == {"Fn::GetAtt": ["SelfTestFunction", "Arn"]}
    assert is_self_test(json.loads(target["Input"]))


def test_a_test_is_run_again_when_code_or_what_it_depends_on_changes(cloudformation: dict[str, Any]) -> None:
    test = deployed(cloudformation, {})["SelfTest"]["Properties"]

    version = cloudformation["Resources"][test["Code"]["Ref"]]
    assert version["Type"] == "AWS::Lambda::Version"
    assert {"Fn::GetAtt": ["RedisNodeList", "Value"]} in test["After"]
    assert {"Fn::GetAtt": ["RelayCertificate", "Serial"]} in test["After"]
    assert {"Fn::GetAtt": ["RedisCertificate", "Serial"]} in test["After"]
