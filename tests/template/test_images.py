"""Images of containers and machines: the default ones, and those of a company's own registry."""

from __future__ import annotations

import re
from typing import Any

import pytest

from burstcache_local.template.intrinsics import Conditions
from support.deployed import decided, deployed

_DIGEST = f"@sha256:{'0' * 64}"
_EVERYTHING = {
    "Relay": "direct",
    "PoolMembers": "8",
    "PoolHub": "fargate",
    "StateDatabases": "a",
    "StateOn": "fargate",
    "StatePersistence": "none",
}
_IMAGES = ("RelayImage", "HubImage", "RedisImage")
_PULLERS = {  # policy of a task's start role → its images
    "RelayTaskPolicy": {"RelayImage"},
    "PoolHubStartPolicy": {"HubImage"},
    "RedisTaskPolicy": {"RedisImage"},
    "StateStartPolicy": {"RedisImage", "HubImage"},
}


def text(value: Any, conditions: Conditions) -> str:
    """Return the value of nested Fn::Sub, Fn::Join, Fn::Select and Fn::Split."""
    match value:
        case {"Fn::Sub": [sentence, given]}:
            known = {name: text(each, conditions) for name, each in given.items()} | {"AWS::Partition": "aws"}
            return re.sub(r"\$\{([^}]+)\}", lambda name: known[name[1]], sentence)
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_texts(parts, conditions))
        case {"Fn::Select": [index, parts]}:
            return _texts(parts, conditions)[int(index)]
    return conditions.value(value)


def _texts(value: Any, conditions: Conditions) -> list[str]:
    match value:
        case {"Fn::Split": [separator, sentence]}:
            return text(sentence, conditions).split(separator)
    return [text(each, conditions) for each in value]


def pulls(body: dict[str, Any], answers: dict[str, str]) -> dict[str, list[str]]:
    """Return the repositories that each task's start role may pull from. `*` is the right to log in."""
    resources, conditions = deployed(body, answers), decided(body, answers)
    return {
        name: [
            text(statement["Resource"], conditions)
            for statement in resources[name]["Properties"]["PolicyDocument"]["Statement"]
            if any(action.startswith("ecr:") for action in _listed(statement["Action"]))
        ]
        for name in _PULLERS
    }


def _listed(action: str | list[str]) -> list[str]:
    return [action] if isinstance(action, str) else action


def test_each_container_has_the_image_of_its_parameter(cloudformation: dict[str, Any]) -> None:
    images = {
        (name, container["Name"]): container["Image"]["Ref"]
        for name, part in deployed(cloudformation, _EVERYTHING).items()
        if part["Type"] == "AWS::ECS::TaskDefinition"
        for container in part["Properties"]["ContainerDefinitions"]
    }

    assert images == {
        ("RelayTask", "relay"): "RelayImage",
        ("PoolHubTask", "hub"): "HubImage",
        ("RedisTask", "redis"): "RedisImage",
        ("StateTask", "redis"): "RedisImage",
        ("StateTask", "keeper"): "HubImage",
    }


@pytest.mark.parametrize("image", ["", "valkey/valkey:8.1", "registry.example.com/valkey" + _DIGEST, "valkey"])
def test_an_image_of_a_public_registry_takes_no_rights(cloudformation: dict[str, Any], image: str) -> None:
    answers = {**_EVERYTHING, **(dict.fromkeys(_IMAGES, image) if image else {})}

    assert pulls(cloudformation, answers) == {name: [] for name in _PULLERS}


@pytest.mark.parametrize(
    "registry", ["123456789012.dkr.ecr.eu-west-1.amazonaws.com", "123456789012.dkr-ecr.eu-west-1.on.aws"]
)
@pytest.mark.parametrize("version", ["", ":1.0", _DIGEST, ":1.0" + _DIGEST], ids=["none", "tag", "digest", "both"])
@pytest.mark.parametrize("path", ["cache", "team/mirror/cache"])
def test_a_start_role_may_pull_its_images_from_their_repositories_and_no_other(
    cloudformation: dict[str, Any], registry: str, path: str, version: str
) -> None:
    answers = {**_EVERYTHING, **{name: f"{registry}/{path}-{name.lower()}{version}" for name in _IMAGES}}

    found = pulls(cloudformation, answers)

    arn = f"arn:aws:ecr:eu-west-1:123456789012:repository/{path}-"
    for policy, images in _PULLERS.items():
        assert sorted(found[policy]) == sorted(["*", *(arn + image.lower() for image in images)]), policy


def test_only_the_image_in_ecr_is_pulled_with_rights(cloudformation: dict[str, Any]) -> None:
    answers = {**_EVERYTHING, "HubImage": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/hub:1"}

    found = pulls(cloudformation, answers)

    arn = "arn:aws:ecr:eu-west-1:123456789012:repository/hub"
    both = ["*", arn]
    assert found == {"RelayTaskPolicy": [], "PoolHubStartPolicy": both, "RedisTaskPolicy": [], "StateStartPolicy": both}


@pytest.mark.parametrize(
    ("image", "is_accepted"),
    [
        ("ami-0123456789abcdef0", True),
        ("resolve:ssm:/golden/arm64:3", True),
        ("ecr-public.aws.com/docker/library/valkey:8.1-alpine", False),
    ],
)
def test_a_machine_image_is_not_mistaken_for_a_container_image(
    template: dict[str, Any], image: str, is_accepted: bool
) -> None:
    parameter = template["Parameters"]["NodeImage"]

    assert bool(re.fullmatch(parameter["AllowedPattern"], image)) == is_accepted
    assert "RedisImage" in parameter["ConstraintDescription"]


@pytest.mark.parametrize(("image", "size_gb"), [({}, 3), ({"NodeImage": "ami-0123456789abcdef0"}, None)])
def test_a_nodes_volume_has_the_size_of_an_image_that_is_given(
    cloudformation: dict[str, Any], image: dict[str, str], size_gb: int | None
) -> None:
    resources = deployed(cloudformation, {"RedisOn": "ec2", **image})

    data = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]
    assert data["ImageId"] == {"Ref": "NodeImage"}
    assert data["BlockDeviceMappings"][0]["Ebs"].get("VolumeSize") == size_gb
