"""Redis nodes as tasks on Fargate: sizes, conditions, rules, and the users of the task's Redis."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from burstcache.core.node_kinds import FARGATE_SIZES
from burstcache_local.errors import TemplateError
from support.deployed import decided, deployed
from support.project import ROOT

_TASKS = {"RedisOn": "fargate-spot", "Relay": "none"}
_RIGHTS = re.compile(r"^\s*user (reader|control) on \S+ (?:resetchannels )?((?:.*\\\n)*.*)$", re.MULTILINE)


def _types(resources: dict[str, Any]) -> set[str]:
    return {part["Type"] for part in resources.values()}


def test_sizes_are_those_that_are_priced(template: dict[str, Any]) -> None:
    sizes = template["Mappings"]["RedisTaskSizes"]

    assert set(sizes) == set(template["Parameters"]["RedisTaskMemoryGb"]["AllowedValues"])
    for name, size in sizes.items():
        vcpu, gb = FARGATE_SIZES[f"{name}GB"]
        assert [Fraction(size["Cpu"]), Fraction(size["Memory"])] == [vcpu * 1024, gb * 1024]
        assert int(size["MaxMemoryMb"]) == gb * 1024 * 3 / 4


def test_nodes_as_tasks_need_no_instances(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**_TASKS, "RedisNodeCount": "8"})

    assert "AWS::ECS::TaskDefinition" in _types(resources)
    assert _types(resources) & {"AWS::EC2::Instance", "AWS::EC2::LaunchTemplate", "AWS::IAM::InstanceProfile"} == set()
    nodes = resources["RedisNodeList"]["Properties"]["Value"]["Fn::Join"][1]
    assert nodes == [f"node-{number}=@:6379" for number in range(1, 9)]
    assert "InstanceStoppedRule" not in resources


def test_databases_of_state_keep_their_instances(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**_TASKS, "StateDatabases": "orders"})

    instances = {name for name, part in resources.items() if part["Type"] == "AWS::EC2::Instance"}
    assert instances == {"StateInstance1"}
    assert {"RedisLaunchTemplate", "InstanceStoppedRule", "TaskChangedRule"} <= resources.keys()
    followed = resources["InstanceStoppedRule"]["Properties"]["EventPattern"]["detail"]["instance-id"]
    assert followed == [{"Ref": "StateInstance1"}]


def test_instances_need_nothing_of_tasks(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"Relay": "none", "RedisOn": "ec2"})

    assert not [name for name in resources if name.startswith(("RedisTask", "TaskChanged", "RelayCluster"))]
    granted = str(resources["RedisControlFunctionRole"]) + str(resources["JanitorFunctionRole"])
    assert "ecs:" not in granted
    assert "iam:PassRole" not in granted


@pytest.mark.parametrize(
    ("answers", "is_public"),
    [({}, False), ({"RelayAddress": "public-ipv4"}, True), ({"AWS::Region": "eu-west-1"}, True)],
    ids=str,
)
def test_tasks_have_the_subnets_and_addresses_of_the_relay(
    cloudformation: dict[str, Any], answers: dict[str, str], is_public: bool
) -> None:
    resources = deployed(cloudformation, {**_TASKS, **answers})

    variables = resources["RedisControlFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["TASK_PUBLIC_IP"] == ("ENABLED" if is_public else "DISABLED")
    assert variables["TASK_SUBNETS"]["Fn::Join"] == [",", [{"Ref": "RelaySubnetA"}]]
    assert ("InternetGateway" in resources) is is_public


def test_functions_that_run_tasks_are_deleted_before_the_tasks(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, _TASKS)

    for name in ("RedisControlFunction", "JanitorFunction"):
        variables = resources[name]["Properties"]["Environment"]["Variables"]
        assert variables["TASK_CLUSTER"] == {"Ref": "RedisTasks"}
    tasks = resources["RedisTasks"]["Properties"]
    assert tasks["Cluster"] == {"Ref": "RelayCluster"}
    assert tasks["SecurityGroup"] == {"Ref": "RedisSecurityGroup"}


def test_functions_price_the_node_by_its_kind_and_size(cloudformation: dict[str, Any]) -> None:
    tasks, instances = (deployed(cloudformation, {"RedisOn": kind}) for kind in ("fargate", "ec2"))

    priced = [
        name
        for name, part in tasks.items()
        if "REDIS_INSTANCE_TYPE" in part.get("Properties", {}).get("Environment", {}).get("Variables", {})
    ]
    assert "SchedulerFunction" in priced
    for name in priced:
        by_kind = [each[name]["Properties"]["Environment"]["Variables"] for each in (tasks, instances)]
        assert by_kind[0]["REDIS_INSTANCE_TYPE"] == {"Fn::Sub": "${RedisOn}:${RedisTaskMemoryGb}GB"}
        assert by_kind[1]["REDIS_INSTANCE_TYPE"] == {"Ref": "RedisInstanceType"}


def test_users_of_a_task_have_the_rights_of_those_of_an_instance() -> None:
    task, instance = ((ROOT / "instance" / name).read_text() for name in ("redis_task.sh", "set_up_redis.sh"))

    rights = [
        {user: set(text.replace("\\\n", " ").split()) for user, text in _RIGHTS.findall(_unquoted(program))}
        for program in (task, instance)
    ]

    assert rights[1].keys() == {"reader", "control"}
    assert rights[0]["reader"] == rights[1]["reader"]
    assert rights[0]["control"] - rights[1]["control"] == {"&attended", "+publish"}
    assert rights[1]["control"] <= rights[0]["control"]


def _unquoted(program: str) -> str:
    """Return a program with each password's digest as one word."""
    return re.sub(r'#\$\(digest_of "[^"]*"\)', "#digest", program)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"Relay": "none", "VpcId": "vpc-1"}, "It also needs RelaySubnetIds, unless RedisOn is ec2"),
        ({"Relay": "none", "VpcId": "vpc-1", "SubnetIds": "subnet-1"}, "and RedisOn ec2"),
        (
            {
                **_TASKS,
                "VpcId": "vpc-1",
                "SubnetIds": "subnet-1",
                "RelaySubnetIds": "subnet-2",
                "AWS::Region": "eu-west-1",
            },
            "no task over IPv6 alone.* or Relay none, PoolHub none and RedisOn ec2",
        ),
    ],
    ids=["VpcId alone", "no RelaySubnetIds", "no IPv4"],
)
def test_a_rule_refuses_tasks_that_could_not_run(
    template: dict[str, Any], answers: dict[str, str], message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        decided(template, answers).check_rules(template["Rules"])


@pytest.mark.parametrize("more", [{"RedisOn": "ec2"}, {"RedisNodeCount": "0"}], ids=["instances", "no nodes"])
@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_vpc_of_yours_needs_no_subnets_for_tasks_without_tasks(
    template: dict[str, Any], more: dict[str, str], region: str
) -> None:
    answers = {"Relay": "none", "VpcId": "vpc-1", "SubnetIds": "subnet-1", "AWS::Region": region, **more}

    decided(template, answers).check_rules(template["Rules"])


def test_defaults_are_accepted_in_every_region_of_the_stack(template: dict[str, Any]) -> None:
    endpoints = template["Rules"]["RegionHasDualStackEndpoints"]["Assertions"][0]["Assert"]
    regions = endpoints["Fn::Contains"][0]

    assert len(regions) == 20
    for region in regions:
        decided(template, {"Relay": "none", "AWS::Region": region}).check_rules(template["Rules"])


def test_without_nodes_nothing_runs_as_a_task(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"RedisNodeCount": "0", "Policy": "thesis"})

    variables = resources["RedisControlFunction"]["Properties"]["Environment"]["Variables"]
    assert (variables["REDIS_ON"], variables["TASK_CLUSTER"]) == ("ec2", "")
    assert "RedisTasks" not in resources
