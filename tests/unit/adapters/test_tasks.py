"""Tasks of Redis nodes: what ECS is asked, and how its answers and events are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from burstcache.access import TaskPlace
from burstcache.adapters.tasks import Tasks, TaskState
from burstcache.core.errors import NodeFailedError, ServiceError, ServiceTransientError
from burstcache.core.rows import NodeRow
from support.aws import mocked_aws
from support.clock import ManualClock
from support.roles import REGION

_NOW_S = 1_800_000_000.0
_GENERATION = int(_NOW_S * 1000)
_ARN = "arn:aws:ecs:eu-central-1:123456789012:task/nodes/0123"
_PLACE = TaskPlace("fargate-spot", "nodes", "node:1", ("subnet-1", "subnet-2"), ("sg-1",), "ENABLED")
_EVENT = {
    "taskArn": _ARN,
    "startedBy": f"node-1/{_GENERATION}",
    "capacityProviderName": "FARGATE_SPOT",
    "lastStatus": "RUNNING",
    "desiredStatus": "RUNNING",
    "attachments": [
        {"type": "ServiceConnect", "details": []},
        {"type": "eni", "details": [{"name": "privateIPv4Address", "value": "10.0.0.1"}]},
    ],
}


def _row(**columns: Any) -> NodeRow:
    return NodeRow("node-1", "booting", _GENERATION, 1, **columns)


@pytest.fixture
def ecs() -> Any:
    """ECS as moto keeps it, with a cluster and a task definition."""
    with mocked_aws():
        yield from _made_ecs()


def _made_ecs() -> Iterator[Any]:
    ecs, ec2 = boto3.client("ecs", REGION), boto3.client("ec2", REGION)
    ecs.create_cluster(clusterName="nodes")
    container = {"name": "redis", "image": "valkey", "memory": 1_024}
    ecs.register_task_definition(family="node", networkMode="awsvpc", containerDefinitions=[container])
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    ecs.subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    yield ecs


def _tasks(client: Any, *, kind: Any = "fargate-spot") -> Tasks:
    subnets = (client.subnet,) if hasattr(client, "subnet") else _PLACE.subnets
    place = TaskPlace(kind, _PLACE.cluster, _PLACE.definition, subnets, _PLACE.security_groups, _PLACE.public_ip)
    return Tasks(place, client, ManualClock(_NOW_S))


@pytest.fixture
def stubbed() -> Iterator[tuple[Any, Stubber]]:
    """A client that gives the answers that a test has set."""
    client = boto3.client("ecs", REGION, aws_access_key_id="id", aws_secret_access_key="secret")
    with Stubber(client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


# moto


def test_a_task_is_run_found_and_stopped(ecs: Any) -> None:
    tasks = _tasks(ecs)

    started = tasks.start(_row())

    row = _row(task=started["task"])
    found = tasks.describe(row)
    assert found is not None
    assert (found.node, found.generation, found.kind) == ("node-1", _GENERATION, "fargate-spot")
    assert found.host.count(".") == 3
    assert (started["task_kind"], started["notice"]) == ("fargate-spot", "")
    assert not tasks.has_stopped(row)
    assert tasks.stop(row)
    assert (tasks.state(row), tasks.has_stopped(row)) == ("stopped", True)


def test_a_stop_ends_every_task_of_the_run_and_no_other(ecs: Any) -> None:
    tasks = _tasks(ecs)
    arns = [tasks.start(_row(), ended=ended)["task"] for ended in ("", "first")]
    other = tasks.start(NodeRow("node-1", "booting", _GENERATION + 1, 1))["task"]

    tasks.stop(_row())  # the row has not learnt of them

    states = {
        task["taskArn"]: task["desiredStatus"]
        for task in ecs.describe_tasks(cluster="nodes", tasks=[*arns, other])["tasks"]
    }
    assert states == {arns[0]: "STOPPED", arns[1]: "STOPPED", other: "RUNNING"}


# what ECS is asked, and its refusals


def _asked(provider: str, token: Any) -> dict[str, Any]:
    network = {"subnets": ["subnet-1", "subnet-2"], "securityGroups": ["sg-1"], "assignPublicIp": "ENABLED"}
    return {
        "cluster": "nodes",
        "taskDefinition": "node:1",
        "capacityProviderStrategy": [{"capacityProvider": provider, "weight": 1}],
        "count": 1,
        "startedBy": f"node-1/{_GENERATION}",
        "clientToken": token,
        "propagateTags": "TASK_DEFINITION",
        "enableECSManagedTags": False,
        "networkConfiguration": {"awsvpcConfiguration": network},
    }


class _Tokens:
    """The client tokens that were sent."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __eq__(self, other: object) -> bool:
        self.seen.append(str(other))
        return True

    __hash__ = None  # type: ignore[assignment]


def test_a_repeat_has_the_same_token_and_each_other_task_its_own(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    tokens, failures = _Tokens(), {"tasks": [], "failures": [{"reason": "no capacity"}]}
    for _ in range(2):
        stubber.add_response("run_task", failures, _asked("FARGATE_SPOT", tokens))
        stubber.add_response("run_task", {"tasks": [{"taskArn": _ARN}]}, _asked("FARGATE", tokens))
    stubber.add_response("run_task", {"tasks": [{"taskArn": _ARN}]}, _asked("FARGATE", tokens))

    for ended in ("", "", _ARN):
        _tasks(client).start(_row(), ended=ended)

    spot, on_demand, *repeat, further = tokens.seen
    assert repeat == [spot, on_demand]
    assert len({spot, on_demand, further}) == 3
    assert all(len(token) <= 64 for token in tokens.seen)


def test_a_node_on_demand_never_asks_for_spot(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response("run_task", {"tasks": [{"taskArn": _ARN}]}, _asked("FARGATE", _Tokens()))

    started = _tasks(client, kind="fargate").start(_row())

    assert started == {"task": _ARN, "task_kind": "fargate", "notice": ""}


def test_a_quota_of_spot_does_not_bar_a_task_on_demand(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_client_error("run_task", "LimitExceededException", "You have reached the limit of vCPUs")
    stubber.add_response("run_task", {"tasks": [{"taskArn": _ARN}]})

    started = _tasks(client).start(_row())

    assert started["task_kind"] == "fargate"
    assert "limit of vCPUs" in started["notice"]


def test_the_error_names_all_refusals(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response("run_task", {"tasks": [], "failures": [{"reason": "no\nSpot"}]})
    stubber.add_client_error("run_task", "ClientException", "Capacity is unavailable")

    with pytest.raises(
        NodeFailedError, match=r"^ECS starts no task for node-1: fargate-spot: no Spot; fargate: .*Capac"
    ):
        _tasks(client).start(_row())


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDeniedException", 400, ServiceError),
        ("InvalidParameterException", 400, ServiceError),
        ("ServerException", 500, ServiceTransientError),
        ("ThrottlingException", 400, ServiceTransientError),
    ],
)
def test_an_error_that_is_no_lack_of_capacity_is_raised(
    stubbed: tuple[Any, Stubber], code: str, status: int, kind: type[Exception]
) -> None:
    client, stubber = stubbed
    stubber.add_client_error("run_task", code, "no", status)

    with pytest.raises(kind) as raised:
        _tasks(client).start(_row())

    assert type(raised.value) is kind


def test_a_stop_of_a_task_that_ecs_has_forgotten_is_a_stop(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response("list_tasks", {"taskArns": []}, {"cluster": "nodes", "startedBy": f"node-1/{_GENERATION}"})
    stubber.add_client_error("stop_task", "InvalidParameterException", "The referenced task was not found.")

    assert _tasks(client).stop(_row(task=_ARN))


def test_a_stop_that_is_refused_raises(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response("list_tasks", {"taskArns": [_ARN]})
    stubber.add_client_error("stop_task", "AccessDeniedException", "no")

    with pytest.raises(ServiceError, match="AccessDenied"):
        _tasks(client).stop(_row())


@pytest.mark.parametrize(
    ("phase", "age_s", "state"),
    [("booting", 59, "pending"), ("booting", 60, "stopped"), ("running", 1, "stopped"), ("stopped", 1, "stopped")],
)
def test_a_task_that_ecs_does_not_know_is_new_or_over(
    stubbed: tuple[Any, Stubber], phase: Any, age_s: int, state: str
) -> None:
    client, stubber = stubbed
    stubber.add_response("describe_tasks", {"tasks": [], "failures": [{"arn": _ARN, "reason": "MISSING"}]})

    row = NodeRow("node-1", phase, _GENERATION - age_s * 1000, 1, task=_ARN)
    assert _tasks(client).state(row) == state


@pytest.mark.parametrize(
    ("last", "desired", "state"),
    [
        ("PROVISIONING", "RUNNING", "pending"),
        ("PENDING", "RUNNING", "pending"),
        ("ACTIVATING", "RUNNING", "pending"),
        ("RUNNING", "RUNNING", "running"),
        ("RUNNING", "STOPPED", "stopped"),
        ("DEPROVISIONING", "STOPPED", "stopped"),
        ("STOPPED", "STOPPED", "stopped"),
    ],
)
def test_a_task_that_was_asked_to_stop_counts_as_stopped(
    stubbed: tuple[Any, Stubber], last: str, desired: str, state: str
) -> None:
    client, stubber = stubbed
    shown = {"taskArn": _ARN, "startedBy": f"node-1/{_GENERATION}", "lastStatus": last, "desiredStatus": desired}
    stubber.add_response("describe_tasks", {"tasks": [shown]}, {"cluster": "nodes", "tasks": [_ARN]})

    assert _tasks(client).state_since(_row(task=_ARN)) == (state, 0)


def test_a_self_test_tries_what_can_be_tried_on_a_task_that_does_not_exist(stubbed: tuple[Any, Stubber]) -> None:
    client, stubber = stubbed
    stubber.add_response("describe_tasks", {"tasks": [], "failures": [{"reason": "MISSING"}]})
    stubber.add_response("list_tasks", {"taskArns": []})
    stubber.add_client_error("stop_task", "InvalidParameterException", "The referenced task was not found.")

    _tasks(client).check_permissions()


@pytest.mark.parametrize("operation", ["describe_tasks", "list_tasks", "stop_task"])
def test_a_self_test_names_the_call_that_is_refused(stubbed: tuple[Any, Stubber], operation: str) -> None:
    client, stubber = stubbed
    for each in ("describe_tasks", "list_tasks", "stop_task"):
        if each == operation:
            stubber.add_client_error(each, "AccessDeniedException", "not authorized")
            break
        stubber.add_response(each, {"tasks": []} if each == "describe_tasks" else {"taskArns": []})

    with pytest.raises(ServiceError, match=operation.title().replace("_", "")):
        _tasks(client).check_permissions()


# events


def test_an_event_names_the_run_the_address_and_the_kind() -> None:
    assert TaskState.of(_EVENT) == TaskState(
        task=_ARN,
        node="node-1",
        generation=_GENERATION,
        kind="fargate-spot",
        is_running=True,
        is_ending=False,
        is_over=False,
        is_interrupted=False,
        host="10.0.0.1",
        reason="",
    )


def test_an_address_of_ipv6_comes_first() -> None:
    details = [{"name": "privateIPv4Address", "value": "10.0.0.1"}, {"name": "privateIPv6Address", "value": "fd00::1"}]

    state = TaskState.of(_EVENT | {"attachments": [{"type": "ElasticNetworkInterface", "details": details}]})

    assert state is not None
    assert state.host == "fd00::1"


@pytest.mark.parametrize(
    ("last", "code", "is_over", "is_interrupted"),
    [
        ("RUNNING", "SpotInterruption", False, True),
        ("STOPPED", "TerminationNotice", True, True),
        ("DEPROVISIONING", "EssentialContainerExited", False, False),
        ("STOPPED", "TaskFailedToStart", True, False),
        ("RUNNING", "UserInitiated", False, False),
    ],
)
def test_the_end_of_a_task_is_read_from_its_stop_code(
    last: str, code: str, is_over: bool, is_interrupted: bool
) -> None:
    ended = {"lastStatus": last, "desiredStatus": "STOPPED", "stopCode": code, "stoppedReason": "of\nECS"}

    state = TaskState.of(_EVENT | ended)

    assert state is not None
    assert (state.is_running, state.is_ending) == (False, True)
    assert (state.is_over, state.is_interrupted) == (is_over, is_interrupted)
    assert state.reason == f"{code}: of ECS"


@pytest.mark.parametrize("started_by", ["", "node-1", "ecs-svc/1234", "node-1/", "node-1/x"])
def test_a_task_of_something_else_is_none_of_a_node(started_by: str) -> None:
    state = TaskState.of(_EVENT | {"startedBy": started_by})

    assert state is None or state.node not in ("node-1", "node-2")
