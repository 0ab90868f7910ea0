"""The network of a stack: with IPv6 and dual-stack endpoints, or in a VPC that has IPv4 alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.deployed import deployed
from support.project import ROOT

Walk = Callable[[Any], Iterator[Any]]

_VPC = {"VpcId": "vpc-00000001", "SubnetIds": "subnet-0000000a", "RelaySubnetIds": "subnet-0000000c"}
_IPV4 = {**_VPC, "Network": "ipv4"}
_ALB = {"FrontDoor": "alb", "AlbScheme": "internet-facing", "AlbSubnetIds": "subnet-0000000d,subnet-0000000e"}
_PARTS: tuple[dict[str, str], ...] = (
    {"Relay": "nlb", "PoolMembers": "8", "PoolHub": "fargate", "StateDatabases": "orders", "StateOn": "fargate"},
    {"Relay": "direct", "RedisOn": "ec2", "StateDatabases": "orders", "Writes": "iam"},
    {"Relay": "direct", **_ALB},
)


@pytest.mark.parametrize("parts", _PARTS, ids=lambda parts: "-".join(parts.values()))
def test_with_ipv4_nothing_asks_for_ipv6(cloudformation: dict[str, Any], walk: Walk, parts: dict[str, str]) -> None:
    dual_stack, ipv4 = (deployed(cloudformation, {**network, **parts}) for network in (_VPC, _IPV4))

    assert dual_stack.keys() == ipv4.keys()
    assert _signs(dual_stack, walk) >= {"Ipv6AllowedForDualStack", "AWS_USE_DUALSTACK_ENDPOINT", "CidrIpv6"}
    assert _signs(ipv4, walk) == set()


def _signs(resources: dict[str, Any], walk: Walk) -> set[str]:
    """Return the signs of IPv6 in resources: names of properties and variables, and blocks and kinds of addresses."""
    found = set()
    for part in walk(resources):
        if isinstance(part, dict):
            found |= {
                "Ipv6AllowedForDualStack",
                "AWS_USE_DUALSTACK_ENDPOINT",
                "CidrIpv6",
                "Ipv6CidrBlock",
            } & part.keys()
            found |= {"AWS_USE_DUALSTACK_ENDPOINT"} & {str(part.get("Name"))}
        elif isinstance(part, str):
            found |= {part} & {"dualstack", "ipv6", "AAAA", "::/0"}
            found |= {"[::1]"} if "http://[::1]" in part else set()
    return found


@pytest.mark.parametrize("kind", ["nlb", "direct"])
def test_with_ipv4_the_relay_is_reached_and_checked_over_ipv4(cloudformation: dict[str, Any], kind: str) -> None:
    resources = deployed(cloudformation, {**_IPV4, "Relay": kind, "AWS::Region": "eu-west-1"})

    (relay,) = resources["RelayTask"]["Properties"]["ContainerDefinitions"]
    assert {"Name": "RELAY_HOST", "Value": "0.0.0.0"} in relay["Environment"]
    assert relay["HealthCheck"]["Command"][1].endswith("http://127.0.0.1:8222/healthz")
    network = resources["RelayService"]["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "DISABLED"
    if kind == "nlb":
        assert resources["RelayBalancer"]["Properties"]["IpAddressType"] == "ipv4"
        assert resources["RelayTargetGroup"]["Properties"]["IpAddressType"] == "ipv4"
    else:
        assert resources["RelayName"]["Properties"]["DnsConfig"]["DnsRecords"] == [{"Type": "A", "TTL": 10}]


def test_with_ipv4_tasks_have_public_addresses_if_asked(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**_IPV4, "RelayAddress": "public-ipv4"})

    variables = resources["RedisControlFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["TASK_PUBLIC_IP"] == "ENABLED"


def test_every_group_lets_out_over_ipv4_what_it_lets_out_over_ipv6(cloudformation: dict[str, Any]) -> None:
    for parts in _PARTS[:2]:
        groups = {
            name: part["Properties"]["SecurityGroupEgress"]
            for name, part in deployed(cloudformation, {**_VPC, **parts}).items()
            if part["Type"] == "AWS::EC2::SecurityGroup"
        }
        for name, rules in groups.items():
            over_ipv4, over_ipv6 = (
                {json.dumps([rule["FromPort"], rule["ToPort"]]) for rule in rules if block in rule}
                for block in ("CidrIp", "CidrIpv6")
            )
            assert over_ipv6 <= over_ipv4, name


def test_an_instance_uses_dual_stack_endpoints_unless_the_network_has_ipv4_alone(resources: dict[str, Any]) -> None:
    data = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"]["Fn::Sub"]

    # A test of the set-up itself is in test_redis_node.py.
    line = "[ ${Network} = ipv4 ] || echo AWS_USE_DUALSTACK_ENDPOINT=true >> /etc/burstcache-node.env"
    assert [each for each in data.splitlines() if "DUALSTACK_ENDPOINT=" in each] == [line]


# Prefix of an IAM action → endpoint of the service. S3, DynamoDB and S3 Express have gateway endpoints.
_ENDPOINTS = {
    "cloudwatch": "monitoring",
    "dynamodb": "dynamodb",
    "ec2": "ec2",
    "ecr": "ecr.api",
    "ecs": "ecs",
    "iam": "IAM",
    "servicequotas": "servicequotas",
    "events": "events",
    "lambda": "lambda",
    "logs": "logs",
    "s3": "s3",
    "s3express": "s3express",
    "ssm": "ssm",
    "ssmmessages": "ssmmessages",
    "states": "states",
    "cloudformation": "cloudformation",
}
_NO_CALLS = {"iam", "kms", "xray"}  # passed roles, and keys that other services use for the caller
_ROLES_IN_VPC = (
    *("ProxyFunction", "CacheFunction", "RedisControlFunction", "PoolMemberFunction"),
    *(
        "RelayTaskPolicy",
        "PoolHubStartPolicy",
        "PoolHubPolicy",
        "RedisTaskPolicy",
        "StateStartPolicy",
        "StateTaskPolicy",
    ),
    *("RedisInstancePolicy", "StateInstancePolicy", "ReaderPolicy", "WriterPolicy", "HolderPolicy"),
)


def test_the_guide_names_the_endpoint_of_each_service_that_is_called_from_the_vpc(
    resources: dict[str, Any], walk: Walk
) -> None:
    called = set[str]().union(*(_services(resources[name], walk) for name in _ROLES_IN_VPC))

    rows = [line.split("|")[1] for line in _section("A VPC without IPv6").splitlines() if line.startswith("| `")]
    named = {word.strip(" `") for row in rows for word in row.split(",")}
    assert {_ENDPOINTS[service] for service in called - _NO_CALLS} <= named


def test_the_guide_names_the_endpoint_of_each_service_that_other_functions_call(
    functions: dict[str, Any], resources: dict[str, Any], walk: Walk
) -> None:
    others = functions.keys() - set(_ROLES_IN_VPC)
    called = set[str]().union(*(_services(resources[name], walk) for name in others))

    section = _section("Every function in the VPC")
    gateways = {"dynamodb", "s3", "s3express"}  # named for all parts
    named = {_ENDPOINTS[service] for service in called - {"kms", "sqs"} - gateways}  # Lambda takes the messages
    assert {name for name in named if f"`{name}`" not in section} == {"IAM"}
    assert "IAM has an interface endpoint in us-east-1 only" in section


def _services(resource: dict[str, Any], walk: Walk) -> set[str]:
    """Return the prefixes of the actions in a resource's policies."""
    found = set[str]()
    for part in walk(resource["Properties"]):
        if isinstance(part, dict) and "Action" in part:
            listed = part["Action"] if isinstance(part["Action"], list) else [part["Action"]]
            found |= {action.partition(":")[0] for action in listed}
    return found


def _section(title: str) -> str:
    guide = (ROOT / "docs/operate/operations.md").read_text()
    return guide.partition(f"\n### {title}\n")[2].partition("\n## ")[0]
