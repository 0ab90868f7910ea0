"""Sizes within AWS's limits, even with the longest names a stack may have and with all its options."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from custom_resources.certificate import issue_certificate
from support.node_machine import user_data

_STACK = "s" * 128  # CloudFormation's limit
_REGION = "ap-southeast-2"  # none is longer
_CA_PEM = issue_certificate("n" * 100, now=datetime.now(UTC))[0].ca_pem
_ADDRESS = "i-0123456789abcdef0@255.255.255.255:6379"
_KNOWN = {
    "AWS::AccountId": "0" * 12,
    "AWS::StackId": f"arn:aws:cloudformation:{_REGION}:{'0' * 12}:stack/{_STACK}/51af3dc0-da77-11e4-872e-1234567b2b6e",
    "AWS::Partition": "aws",
    "AWS::Region": _REGION,
    "AWS::StackName": _STACK,
    "CacheMemoryMb": "10240",
    "CacheTable": f"{_STACK}-CacheTable-ABCDEFGHIJKLM",
    "CredentialsIssue": "99",
    "OriginBucketName": "b" * 63,
    "HitValueUsdPerMillion": "1234.56",
    "MaxNodeHoursPerDay": "24",
    "PolicyOverrides": ",".join(f"{'p' * 20}=12345" for _ in range(6)),
    "PolicyRatePerMin": "1234.56",
    "PolicySensitivity": "1.23456",
    "Policy": "breakeven",
    "RedisAlwaysOnNodes": "8",
    "RedisCertificate.CaPem": _CA_PEM,
    "RedisInstanceType": "r8g.medium",
    "RedisOn": "fargate-spot",
    "RedisSecurityGroup": "sg-0123456789abcdef0",
    "RedisTasks.Family": "burstcache-redis-51af3dc0",
    "RedisTaskMemoryGb": "120",
    "RedisNodeList.Value": ",".join(f"node-{number}={_ADDRESS}" for number in range(8)),
    "RelayCertificate.CaPem": _CA_PEM,
    "RelaySubnetA": "subnet-0123456789abcdef0",
    "RelaySubnetB": "subnet-0123456789abcdef0",
    "RelayBalancerPort": "65535",
    "RelayCertificate.DnsName": "n" * 100,
    "StateGraceS": "86400",
    "StateOn": "fargate-spot",
    "StatePersistence": "none",
    "StateNodeList.Value": ",".join(f"state-{'d' * 24}={_ADDRESS}" for _ in range(4)),
    "StateSecurityGroup": "sg-0123456789abcdef0",
    "StateTasks.Family": "burstcache-state-51af3dc0",
}
# What may have the stack's name or its id in its own: how many characters AWS allows; of a DNS name in its first label.
# All others get names of CloudFormation's, which shortens the stack's in them.
_NAMES = {
    ("AWS::CloudWatch::Dashboard", "DashboardName"): 255,
    ("AWS::ECS::Service", "ServiceName"): 255,
    ("AWS::ECS::TaskDefinition", "Family"): 255,
    ("AWS::Events::EventBus", "Name"): 256,
    ("AWS::Logs::LogGroup", "LogGroupName"): 512,
    ("AWS::SSM::Parameter", "Name"): 1011,
    ("AWS::Serverless::HttpApi", "Name"): 128,
    ("AWS::Serverless::StateMachine", "Name"): 80,
    ("AWS::ServiceDiscovery::PrivateDnsNamespace", "Name"): 63 + len(".internal"),
}
_ARN = f"arn:aws:lambda:{_REGION}:{'0' * 12}:function:{'f' * 64}"


def longest(value: Any) -> Any:
    """Return a value of the template with the longest text that its functions may give; None for no value."""
    if isinstance(value, list):
        return [one for one in map(longest, value) if one is not None]
    if not isinstance(value, dict):
        return value
    match list(value.items()):
        case [("Ref", "AWS::NoValue")]:
            return None
        case [("Ref", name)]:
            return _KNOWN.get(name, "r" * 64)  # of a resource
        case [("Fn::GetAtt", name)]:
            return _KNOWN.get(name if isinstance(name, str) else ".".join(name), _ARN)
        case [("Fn::If", [_, *branches])]:
            return max(map(longest, branches), key=lambda branch: len(json.dumps(branch)))
        case [("Fn::Sub", [text, given])]:
            known = _KNOWN | longest(given)
            return re.sub(r"\$\{([^}]+)\}", lambda name: known.get(name[1], _ARN), text)
        case [("Fn::Sub", text)]:
            return re.sub(r"\$\{([^}]+)\}", lambda name: _KNOWN.get(name[1], _ARN), text)
        case [("Fn::Join", [separator, parts])]:
            return separator.join(map(str, longest(parts)))
        case [("Fn::Split", [separator, text])]:
            return longest(text).split(separator)
        case [("Fn::Select", [index, choices])]:
            parts = longest(choices)
            return parts[int(index)] if int(index) < len(parts) else "r" * 64
    return {name: longest(each) for name, each in value.items()}


def _decided(value: Any, conditions: Mapping[str, bool]) -> Any:
    """Return a value of the template with the branches of some conditions chosen."""
    match value:
        case {"Fn::If": [condition, then, otherwise]} if condition in conditions:
            return _decided(then if conditions[condition] else otherwise, conditions)
        case dict():
            return {name: _decided(each, conditions) for name, each in value.items()}
        case list():
            return [_decided(each, conditions) for each in value]
    return value


def test_a_stack_may_have_a_name_as_long_as_cloudformation_takes(resources: dict[str, Any]) -> None:
    names = {
        (logical_id, (resource["Type"], name)): longest(value)
        for logical_id, resource in resources.items()
        for name, value in resource.get("Properties", {}).items()
        if resource["Type"].startswith("AWS::")
        and re.search("(?<!Dns)Name$|^Family$", name)
        and re.search("AWS::Stack(Name|Id)", json.dumps(value))
    }

    assert {kind for _, kind in names} == {*_NAMES}
    assert {logical_id: name for (logical_id, kind), name in names.items() if len(name) > _NAMES[kind]} == {}


def test_a_tag_with_the_longest_names_fits(resources: dict[str, Any]) -> None:
    tags = {
        logical_id: [longest(tag["Value"]) for tag in resource.get("Properties", {}).get("Tags", []) if "Value" in tag]
        for logical_id, resource in resources.items()
    }

    assert {logical_id for logical_id, values in tags.items() if any(len(value) > 256 for value in values)} == set()


def test_the_template_fits_into_what_cloudformation_takes(text: str, cloudformation: dict[str, Any]) -> None:
    # CloudFormation User Guide, "Understand CloudFormation quotas".
    assert len(cloudformation["Resources"]) <= 500
    assert len(cloudformation["Parameters"]) <= 200
    assert len(cloudformation["Outputs"]) <= 200
    assert len(text.encode()) <= 1_000_000


def test_user_data_fits_into_what_ec2_takes(resources: dict[str, Any]) -> None:
    text = longest({"Fn::Sub": user_data(resources)})

    assert len(text.encode()) <= 16 * 1024  # before its encoding


def test_the_program_of_a_database_fits_into_a_parameter(resources: dict[str, Any]) -> None:
    program = resources["StateProgram"]["Properties"]

    assert program["Tier"] == "Advanced"
    assert len(program["Value"].encode()) <= 8 * 1024
    assert "{{" not in program["Value"]  # Systems Manager takes it for the name of another parameter


def test_the_program_of_a_volume_fits_into_a_parameter_that_costs_nothing(resources: dict[str, Any]) -> None:
    program = resources["StateVolumeProgram"]["Properties"]

    assert "Tier" not in program
    assert len(program["Value"].encode()) <= 4 * 1024
    assert "{{" not in program["Value"]


@pytest.mark.parametrize("nodes_are_tasks", [False, True])
@pytest.mark.parametrize("state_is_task", [False, True])
def test_the_environment_of_a_function_fits_into_what_lambda_takes(
    template: dict[str, Any],
    functions: dict[str, Any],
    nodes_are_tasks: bool,
    state_is_task: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    conditions = {"NodesAreTasks": nodes_are_tasks, "StateIsTask": state_is_task}
    conditions["RunsNodeTasks"] = nodes_are_tasks or state_is_task
    for name, are_tasks in (("RedisNodeList.Value", nodes_are_tasks), ("StateNodeList.Value", state_is_task)):
        if are_tasks:  # they have neither instances nor addresses
            monkeypatch.setitem(_KNOWN, name, _KNOWN[name].replace(_ADDRESS, "@:6379"))

    sizes = {
        name: size(longest(_decided({**shared, **properties["Environment"]["Variables"]}, conditions)))
        for name, properties in functions.items()
    }

    assert {name for name, taken in sizes.items() if taken > 4096} == set(), sizes


def test_the_task_of_a_database_fits_into_what_ecs_takes(resources: dict[str, Any]) -> None:
    # Amazon ECS Developer Guide, "Amazon ECS service quotas": 64 KiB.
    assert size(longest(resources["StateTask"]["Properties"])) <= 64 * 1024


def test_what_a_role_may_fits_into_its_policies(resources: dict[str, Any]) -> None:
    inline = {name: each["Properties"].get("Policies", []) for name, each in resources.items() if "Properties" in each}
    managed = {
        name: each["Properties"]["PolicyDocument"]
        for name, each in resources.items()
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    }

    assert {name for name, documents in inline.items() if size(longest(documents)) > 10_240} == set()
    assert {name for name, document in managed.items() if size(longest(document)) > 6_144} == set()


def size(document: Any) -> int:
    """Return the characters of JSON without white space."""
    return len(json.dumps(document, separators=(",", ":")))
