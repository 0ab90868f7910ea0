"""Redis nodes as tasks on Fargate: sizes, conditions, rules, and the users of the task's Redis."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from burstcache.core.node_kinds import FARGATE_SIZES, node_items
from burstcache_local.errors import TemplateError
from burstcache_local.template.intrinsics import Conditions
from burstcache_local.template.parameters import declared_values, node_name
from support.deployed import decided, deployed
from support.project import ROOT

_TASKS = {"RedisOn": "fargate-spot", "Relay": "none"}
_STATE = {"StateDatabases": "orders,carts", "StateOn": "fargate-spot", "Relay": "none"}
_KEEPER_MB = 256  # Python with the SDK: the program that announces, and the one that saves
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
        assert int(size["StateMaxMemoryMb"]) == int((gb * 1024 - _KEEPER_MB) * 0.6)


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


def test_databases_as_tasks_need_no_instances_and_no_volumes(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**_STATE, **_TASKS})

    of_ec2 = {"AWS::EC2::Instance", "AWS::EC2::Volume", "AWS::EC2::LaunchTemplate", "AWS::IAM::InstanceProfile"}
    assert _types(resources) & of_ec2 == set()
    databases = [_database_of(each) for each in resources["StateNodeList"]["Properties"]["Value"]["Fn::Join"][1]]
    assert databases == ["state-orders=@:6379", "state-carts=@:6379"]
    assert {"StateBucket", "StateFunction", "HolderPolicy"} <= resources.keys()
    assert {"StateProgram", "InstanceStoppedRule", "StateInstancePolicy"} & resources.keys() == set()


def _database_of(entry: dict[str, Any]) -> str:
    """Return an entry of STATE_NODES with the database's name of `_STATE`."""
    text, values = entry["Fn::Sub"]
    name = _STATE["StateDatabases"].split(",")[values["Database"]["Fn::Select"][0]]
    return str(text).replace("${Database}", name)


def test_nodes_keep_their_instances_beside_databases_as_tasks(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**_STATE, "RedisOn": "ec2"})

    instances = {name for name, part in resources.items() if part["Type"] == "AWS::EC2::Instance"}
    assert instances == {"RedisInstance1"}
    assert "RedisTask" not in resources
    followed = resources["InstanceStoppedRule"]["Properties"]["EventPattern"]["detail"]["instance-id"]
    assert followed == [{"Ref": "RedisInstance1"}]


@pytest.mark.parametrize(
    ("answers", "kinds", "families"),
    [
        ({"Relay": "none", "RedisOn": "ec2"}, ("ec2", "ec2"), []),
        (_TASKS, ("fargate-spot", "ec2"), ["RedisTasks"]),
        ({**_STATE, "RedisOn": "ec2"}, ("ec2", "fargate-spot"), ["StateTasks"]),
        ({**_STATE, "RedisOn": "fargate"}, ("fargate", "fargate-spot"), ["RedisTasks", "StateTasks"]),
        ({**_STATE, "RedisOn": "ec2", "StateDatabases": ""}, ("ec2", "ec2"), []),
    ],
    ids=["neither", "nodes", "databases", "both", "no database"],
)
def test_functions_know_the_tasks_that_the_stack_runs(
    cloudformation: dict[str, Any], answers: dict[str, str], kinds: tuple[str, str], families: list[str]
) -> None:
    resources = deployed(cloudformation, answers)

    control, janitor = (
        resources[name]["Properties"]["Environment"]["Variables"]
        for name in ("RedisControlFunction", "JanitorFunction")
    )
    given = {"RedisOn": answers.get("RedisOn", "ec2"), "StateOn": answers.get("StateOn", "ec2")}
    for variables in (control, janitor):
        assert tuple(_answer(variables[name], given) for name in ("REDIS_ON", "STATE_NODE")) == kinds
        assert variables["TASK_CLUSTER"] == ({"Ref": families[0]} if families else "")
    definitions = [control["TASK_DEFINITION"], control["STATE_TASK_DEFINITION"]]
    assert [each for each in definitions if each] == [{"Fn::GetAtt": [name, "Family"]} for name in families]
    groups = [control["TASK_SECURITY_GROUPS"], control["STATE_TASK_SECURITY_GROUPS"]]
    assert [each != "" for each in groups] == [each != "" for each in definitions]
    assert bool(control["TASK_SUBNETS"]) == bool(families)
    passed = re.findall(
        r"'Fn::GetAtt': \['((?:Redis|State)\w+Role)', 'Arn'\]", str(resources["RedisControlFunctionRole"])
    )
    roles = {"RedisTasks": ["RedisTaskRole"], "StateTasks": ["StateStartRole", "StateTaskRole"]}
    assert passed == [role for name in families for role in roles[name]]
    rule = resources.get("TaskChangedRule", {"Properties": {"EventPattern": {"detail": {"group": []}}}})
    groups = rule["Properties"]["EventPattern"]["detail"]["group"]
    assert groups == [{"Fn::Sub": f"family:${{{name}.Family}}"} for name in families]
    if families:
        assert resources["RelayCluster"]["Properties"]["CapacityProviders"] == ["FARGATE_SPOT", "FARGATE"]


def _answer(value: Any, given: dict[str, str]) -> str:
    """Return the kind of node that a variable names."""
    if "Fn::Sub" in value:
        return given["StateOn"]
    return {"RedisInstanceType": "ec2", **given}[value["Ref"]] if isinstance(value, dict) else value


def test_the_containers_of_a_database_share_a_volume_and_stop_in_the_order_that_saves(
    cloudformation: dict[str, Any],
) -> None:
    task = deployed(cloudformation, _STATE)["StateTask"]["Properties"]

    redis, keeper = task["ContainerDefinitions"]
    assert (redis["Name"], keeper["Name"]) == ("redis", "keeper")
    assert task["Volumes"] == [{"Name": "state"}]
    assert keeper["DependsOn"] == [{"ContainerName": "redis", "Condition": "START"}]
    for container in (redis, keeper):
        assert container["Essential"] is True
        assert container["StopTimeout"] == 120
        assert container["MountPoints"] == [{"SourceVolume": "state", "ContainerPath": "/state"}]


@pytest.mark.parametrize(("persistence", "is_saved"), [("rdb", True), ("none", False)])
def test_the_keeper_saves_only_what_a_sleeping_database_keeps(
    cloudformation: dict[str, Any], persistence: str, is_saved: bool
) -> None:
    resources = deployed(cloudformation, {**_STATE, "StatePersistence": persistence})

    _, keeper = resources["StateTask"]["Properties"]["ContainerDefinitions"]
    variables = {each["Name"]: each["Value"] for each in keeper["Environment"]}
    assert ("STATE_PROGRAM_TEXT" in variables) is is_saved
    assert variables["STATE_BUCKET"] == ({"Ref": "StateBucket"} if is_saved else "")
    assert ("s3:PutObject" in str(resources["StateTaskPolicy"])) is is_saved


def test_the_tasks_of_databases_end_while_they_can_still_save(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, _STATE)

    tasks = resources["StateTasks"]
    assert {"StateTaskPolicy", "StateStartPolicy", "NetworkIsReady"} <= set(tasks["DependsOn"])
    assert tasks["Properties"]["Definition"] == {"Ref": "StateTask"}
    assert tasks["Properties"]["SecurityGroup"] == {"Ref": "StateSecurityGroup"}
    assert {"Fn::GetAtt": ["StateTasks", "Family"]} in (
        resources["RedisControlFunction"]["Properties"]["Environment"]["Variables"].values()
    )


def test_holders_reach_a_task_that_has_ipv6_alone(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, _STATE)

    leaving = resources["HolderSecurityGroup"]["Properties"]["SecurityGroupEgress"]
    assert {("CidrIp" in rule, rule["FromPort"]) for rule in leaving} >= {(True, 6379), (False, 6379)}
    (entering,) = resources["StateSecurityGroup"]["Properties"]["SecurityGroupIngress"]
    assert entering["SourceSecurityGroupId"] == {"Ref": "HolderSecurityGroup"}


@pytest.mark.parametrize("state_on", ["ec2", "fargate"])
def test_the_account_is_checked_for_what_databases_run_on(cloudformation: dict[str, Any], state_on: str) -> None:
    checked = deployed(cloudformation, {**_STATE, "StateOn": state_on})["Account"]["Properties"]

    on_ec2, on_fargate = (checked["Databases"], checked["StateTasks"])
    expected = ({"Ref": "StateDatabases"}, "") if state_on == "ec2" else ("", {"Ref": "StateDatabases"})
    assert (on_ec2, on_fargate) == expected
    assert bool(checked["StateTask"]) == (state_on != "ec2")


def test_a_bucket_of_snapshots_is_the_same_for_instances_and_tasks(cloudformation: dict[str, Any]) -> None:
    instances, tasks = (deployed(cloudformation, {**_STATE, "StateOn": kind}) for kind in ("ec2", "fargate-spot"))

    assert instances["StateBucket"] == tasks["StateBucket"]
    (bucket,) = [
        tag["Value"]
        for tag in instances["StateInstance1"]["Properties"]["Tags"]
        if tag["Key"] == "burstcache-state-bucket"
    ]
    _, keeper = tasks["StateTask"]["Properties"]["ContainerDefinitions"]
    assert {"Name": "STATE_BUCKET", "Value": bucket} in keeper["Environment"]


def test_instances_need_nothing_of_tasks(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"Relay": "none", "RedisOn": "ec2"})

    of_tasks = ("RedisTask", "StateTask", "StateStart", "TaskChanged", "RelayCluster")
    assert not [name for name in resources if name.startswith(of_tasks)]
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


@pytest.mark.parametrize(
    ("region", "parameters", "name"),
    [
        ("us-east-1", {"RedisOn": "fargate-spot"}, "fargate-spot:2GB"),
        ("eu-west-1", {"RedisOn": "fargate-spot"}, "fargate-spot:2GB+ipv4"),
        ("eu-north-1", {"RedisOn": "fargate", "RedisTaskMemoryGb": "4"}, "fargate:4GB+ipv4"),
        ("us-east-1", {"RedisOn": "fargate", "RelayAddress": "public-ipv4"}, "fargate:2GB+ipv4"),
        ("eu-west-1", {"RedisOn": "fargate", "RelayAddress": "private-ipv4"}, "fargate:2GB"),
        ("eu-west-1", {"RedisOn": "ec2", "RedisInstanceType": "t4g.nano"}, "t4g.nano"),
    ],
)
def test_policies_weigh_the_price_of_a_task_with_its_public_address(
    template: dict[str, Any], region: str, parameters: dict[str, str], name: str
) -> None:
    """An address costs as much as a task of 2 GB on Spot."""
    values = declared_values(template["Parameters"], parameters)

    found = node_name(template, Conditions(template, {**values, "AWS::Region": region}))

    assert found == name
    assert ("ipv4" in dict(node_items(found))) == name.endswith("+ipv4")


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
        ({"Relay": "none", "VpcId": "vpc-1"}, "It also needs RelaySubnetIds, unless RedisOn and StateOn are ec2"),
        ({"Relay": "none", "VpcId": "vpc-1", "SubnetIds": "subnet-1"}, "RedisOn ec2 and StateOn ec2"),
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
        (
            {**_STATE, "VpcId": "vpc-1", "SubnetIds": "subnet-1"},
            "RedisOn ec2 and StateOn ec2",
        ),
        (
            {
                **_STATE,
                "VpcId": "vpc-1",
                "SubnetIds": "subnet-1",
                "RelaySubnetIds": "subnet-2",
                "AWS::Region": "eu-west-1",
            },
            "no task over IPv6 alone",
        ),
        ({**_STATE, "StatePersistence": "aof"}, "aof needs StateOn ec2"),
        ({**_STATE, "RedisTaskMemoryGb": "16"}, "has RedisTaskMemoryGb 8 at most"),
    ],
    ids=[
        "VpcId alone",
        "no RelaySubnetIds",
        "no IPv4",
        "no subnets for state",
        "no IPv4 for state",
        "log",
        "too large",
    ],
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
