"""Tags of a stack on what its parts start, and instances that need none of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from burstcache_local.template.intrinsics import Conditions
from support.deployed import decided, deployed
from support.project import ROOT

_EC2 = {"RedisOn": "ec2", "RedisNodeCount": "8", "StateDatabases": "a,b,c,d", "PoolMembers": "8", "PoolHub": "fargate"}


def test_volumes_get_the_tags_of_their_instances(cloudformation: dict[str, Any]) -> None:
    parts = deployed(cloudformation, _EC2).values()
    instances = [part["Properties"] for part in parts if part["Type"] == "AWS::EC2::Instance"]

    assert len(instances) == 12
    assert all(instance["PropagateTagsToVolumeOnCreation"] is True for instance in instances)


def test_tasks_of_services_get_the_tags_of_their_service(cloudformation: dict[str, Any]) -> None:
    parts = deployed(cloudformation, _EC2).values()
    services = [part["Properties"] for part in parts if part["Type"] == "AWS::ECS::Service"]

    assert [service["PropagateTags"] for service in services] == ["SERVICE", "SERVICE"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Team=Data", [("Team", "Data")]),
        ("Team=Data lake,cost/center=42,empty=", [("Team", "Data lake"), ("cost/center", "42"), ("empty", "")]),
        (",".join(f"k{n}={n}" for n in range(8)), [(f"k{n}", str(n)) for n in range(8)]),
    ],
)
def test_an_interface_gets_the_tags_that_are_given(
    cloudformation: dict[str, Any], given: str, expected: list[tuple[str, str]]
) -> None:
    answers = {**_EC2, "ResourceTags": given}
    conditions = decided(cloudformation, answers)

    data = deployed(cloudformation, answers)["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]

    (specification,) = data["TagSpecifications"]
    assert specification["ResourceType"] == "network-interface"
    assert [
        tuple(_text(tag[part], conditions) for part in ("Key", "Value")) for tag in specification["Tags"]
    ] == expected


def _text(value: Any, conditions: Conditions) -> str:
    """Return the value of nested Fn::Select and Fn::Split."""
    match value:
        case {"Fn::Select": [index, {"Fn::Split": [separator, text]}]}:
            return _text(text, conditions).split(separator)[int(index)]
    return conditions.value(value)


def test_without_tags_an_interface_has_none(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, _EC2)

    assert "TagSpecifications" not in resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]


def test_no_program_of_an_instance_needs_its_tags(
    resources: dict[str, Any], walk: Callable[[Any], Iterator[Any]]
) -> None:
    data = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]

    assert data["MetadataOptions"]["InstanceMetadataTags"] == "disabled"  # else EC2 refuses keys with a space or /
    assert not [
        path for path in (ROOT / "instance").iterdir() if path.is_file() and "tags/instance" in path.read_text()
    ]


@pytest.mark.parametrize(("parameter", "kind"), [("RedisNodeList", "redis"), ("StateNodeList", "state")])
def test_an_instance_may_read_the_list_that_has_its_name(resources: dict[str, Any], parameter: str, kind: str) -> None:
    name = resources[parameter]["Properties"]["Name"]["Fn::Sub"]
    script = (ROOT / "instance/set_up_redis.sh").read_text()
    policy = str(resources["RedisInstancePolicy" if kind == "redis" else "StateInstancePolicy"])

    assert name == f"/burstcache/${{AWS::StackName}}/{kind}/${{CredentialsIssue}}/nodes"
    assert f"burstcache-secret {kind} nodes" in script
    assert f":parameter{name.removesuffix('nodes')}*" in policy


@pytest.mark.parametrize(
    ("given", "is_accepted"),
    [
        *(("", True), ("Team=Data", True), ("a b/c:d=e f/g,h=", True)),
        *(("Team", False), ("=x", False), ("a=b=c", False), ("a=b,", False), (",".join(["a=b"] * 9), False)),
    ],
)
def test_a_deployment_refuses_what_is_no_list_of_tags(template: dict[str, Any], given: str, is_accepted: bool) -> None:
    assert bool(re.fullmatch(template["Parameters"]["ResourceTags"]["AllowedPattern"], given)) == is_accepted
