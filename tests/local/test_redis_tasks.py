"""Redis nodes on Fargate in the local cloud: tasks started by ECS's API, with events, faults and the stack's IAM."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import redis
from botocore.exceptions import ClientError

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.machines.tasks import TaskTimes
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow

_UNATTENDED_S = 4
_DRAIN_S = 3.0
_BOOTING = ["PROVISIONING", "PENDING"]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    parameters = {"RedisOn": "fargate-spot", "RedisTaskMemoryGb": "0.5", "Relay": "none"}
    with LocalCloud(
        LocalOptions(
            parameters=parameters,
            task_times=TaskTimes(0.1, 0.1, 0.1),
            task_environment={"ATTENDANCE_CHECK_S": "0.2"},
            run_dir=tmp_path_factory.mktemp("logs"),
        )
    ) as running:
        yield running


class Ecs:
    """ECS, called as Redis control, with the events that it sends."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.variables = cloud.function_variables("RedisControlFunction")
        self.cluster = self.variables["TASK_CLUSTER"]
        self.client = _client_of(cloud, "ecs", cloud.physical_ids["RedisControlFunction"])
        sqs, events = cloud.client("sqs"), cloud.client("events")
        self._sqs, self._queue = sqs, sqs.create_queue(QueueName="events")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        principal = {"Service": "events.amazonaws.com"}
        grant = {"Effect": "Allow", "Principal": principal, "Action": "sqs:SendMessage", "Resource": arn}
        sqs.set_queue_attributes(QueueUrl=self._queue, Attributes={"Policy": json.dumps({"Statement": [grant]})})
        events.put_rule(Name="watch", EventPattern=json.dumps({"source": ["aws.ecs"]}))
        events.put_targets(Rule="watch", Targets=[{"Id": "queue", "Arn": arn}])
        self._events: list[dict[str, Any]] = []

    def run(self, provider: str = "FARGATE_SPOT", **more: Any) -> dict[str, Any]:
        network = {
            "subnets": self.variables["TASK_SUBNETS"].split(","),
            "securityGroups": self.variables["TASK_SECURITY_GROUPS"].split(","),
            "assignPublicIp": self.variables["TASK_PUBLIC_IP"],
        }
        return self.client.run_task(  # type: ignore[no-any-return]
            cluster=self.cluster,
            taskDefinition=self.variables["TASK_DEFINITION"],
            capacityProviderStrategy=[{"capacityProvider": provider, "weight": 1}],
            count=1,
            startedBy="node-1/1",
            propagateTags="TASK_DEFINITION",
            enableECSManagedTags=False,
            networkConfiguration={"awsvpcConfiguration": network},
            **more,
        )

    def start(self, **more: Any) -> str:
        ((task),) = self.run(**more)["tasks"]
        return str(task["taskArn"])

    def describe(self, task: str) -> dict[str, Any]:
        ((found),) = self.client.describe_tasks(cluster=self.cluster, tasks=[task])["tasks"]
        return dict(found)

    def await_status(self, task: str, status: str) -> dict[str, Any]:
        until(lambda: self.describe(task)["lastStatus"] == status)
        return self.describe(task)

    def stop(self, task: str) -> None:
        self.client.stop_task(cluster=self.cluster, task=task, reason="test")

    def events(self, task: str) -> list[dict[str, Any]]:
        """Return all events about a task that has stopped. The last of them may come later than the task stops."""

        def found() -> list[dict[str, Any]]:
            messages = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10).get("Messages", [])
            self._events += (json.loads(message["Body"])["detail"] for message in messages)
            return sorted((each for each in self._events if each["taskArn"] == task), key=lambda each: each["version"])

        until(lambda: "STOPPED" in (each["lastStatus"] for each in found()))
        return found()


def _client_of(cloud: LocalCloud, service: str, role: str) -> Any:
    session = boto3.Session(role, "local", region_name=cloud.region)
    return session.client(service, endpoint_url=cloud.endpoint_url)


@pytest.fixture(scope="module")
def watched(cloud: LocalCloud) -> Ecs:
    return Ecs(cloud)


@pytest.fixture
def ecs(watched: Ecs) -> Iterator[Ecs]:
    ecs = watched
    yield ecs
    for task in ecs.client.list_tasks(cluster=ecs.cluster)["taskArns"]:
        ecs.stop(task)


def _host(task: dict[str, Any]) -> str:
    ((attachment),) = task["attachments"]
    details = {detail["name"]: detail["value"] for detail in attachment["details"]}
    return str(details["privateIPv4Address"])


def _connect(cloud: LocalCloud, host: str, user: str, tmp_path: Any) -> redis.Redis:
    variables = cloud.function_variables("RedisControlFunction")
    name = variables["REDIS_PASSWORD_PARAMETER"].rpartition("/")[0] + f"/{user}"
    password = cloud.client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
    ca = tmp_path / "ca.pem"
    ca.write_text(variables["REDIS_CA_PEM"])
    return redis.Redis(
        host, 6379, username=user, password=password, ssl=True, ssl_ca_certs=str(ca), ssl_check_hostname=False
    )


def _await_answer(client: redis.Redis) -> None:
    def answers() -> bool:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False

    until(answers)


def test_task_is_a_redis_for_its_users_until_it_is_stopped(cloud: LocalCloud, ecs: Ecs, tmp_path: Any) -> None:
    task = ecs.start()
    host = _host(ecs.await_status(task, "RUNNING"))
    with _connect(cloud, host, "reader", tmp_path) as reader, _connect(cloud, host, "control", tmp_path) as control:
        _await_answer(reader)
        reader.hset("object:1", "body", b"data")
        assert reader.hget("object:1", "body") == b"data"
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.publish("attended", "now")
        until(lambda: control.publish("attended", "now") == 1)  # the entry point listens
        assert control.config_get("maxmemory")["maxmemory"] == str(384 * 1024 * 1024)
        wrong = redis.Redis(host, 6379, username="reader", password="wrong", ssl=True, ssl_cert_reqs="none")
        with wrong, pytest.raises(redis.AuthenticationError):
            wrong.ping()

        asked_s = time.monotonic()
        ecs.stop(task)

        assert reader.hget("object:1", "body") == b"data"  # it answers while readers have an older digest
        stopped = ecs.await_status(task, "STOPPED")

    assert time.monotonic() - asked_s >= _DRAIN_S
    assert stopped["stopCode"] == "UserInitiated"
    assert stopped["containers"][0]["exitCode"] == 0
    seen = [(event["lastStatus"], event["desiredStatus"]) for event in ecs.events(task)]
    running = [(status, "RUNNING") for status in (*_BOOTING, "RUNNING")]
    assert seen == [*running, *((status, "STOPPED") for status in ("RUNNING", "DEPROVISIONING", "STOPPED"))]


def test_task_that_nobody_attends_ends_itself(cloud: LocalCloud, ecs: Ecs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cloud.options.task_environment, "UNATTENDED_S", str(_UNATTENDED_S))
    task = ecs.start()
    ecs.await_status(task, "RUNNING")

    ended = ecs.await_status(task, "STOPPED")

    assert ended["stopCode"] == "EssentialContainerExited"
    # On a busy machine ECS learns late that it runs.
    lived_s = (ended["stoppedAt"] - ended["createdAt"]).total_seconds()
    assert lived_s >= _UNATTENDED_S - 1 + _DRAIN_S  # the clock has whole seconds


def test_run_is_repeated_by_its_token(ecs: Ecs) -> None:
    first, again, other = (ecs.start(clientToken=token) for token in ("a", "a", "b"))

    assert first == again != other


def test_provider_without_capacity_starts_nothing(cloud: LocalCloud, ecs: Ecs) -> None:
    with cloud.faults.refuse_tasks("FARGATE_SPOT"):
        refused, started = ecs.run(), ecs.run("FARGATE")

    assert refused["tasks"] == []
    assert "Capacity is unavailable" in refused["failures"][0]["reason"]
    assert len(started["tasks"]) == 1


def test_task_without_an_image_fails_to_start(cloud: LocalCloud, ecs: Ecs) -> None:
    with cloud.faults.remove_images():
        task = ecs.await_status(ecs.start(), "STOPPED")

    assert task["stopCode"] == "TaskFailedToStart"
    assert task["stoppedReason"].startswith("CannotPullContainerError")
    assert "RUNNING" not in {event["lastStatus"] for event in ecs.events(task["taskArn"])}


@pytest.mark.parametrize("status", ["RUNNING", "PENDING"])
def test_interruption_ends_a_task_that_runs_or_boots(cloud: LocalCloud, ecs: Ecs, status: str) -> None:
    with cloud.faults.delay_tasks(0 if status == "RUNNING" else LIMIT_S):
        task = ecs.start()
        ecs.await_status(task, status)

        interrupted = cloud.interrupt_tasks(notice_s=1)
        stopped = ecs.await_status(task, "STOPPED")

    assert task in interrupted
    assert stopped["stopCode"] == "SpotInterruption"
    notice = next(event for event in ecs.events(task) if event["desiredStatus"] == "STOPPED")
    assert (notice["lastStatus"], notice["stopCode"]) == (status, "SpotInterruption")


def test_interruption_spares_tasks_on_demand(cloud: LocalCloud, ecs: Ecs) -> None:
    task = ecs.run("FARGATE")["tasks"][0]["taskArn"]

    assert task not in cloud.interrupt_tasks()
    assert ecs.describe(task)["desiredStatus"] == "RUNNING"


def test_only_functions_with_a_part_in_it_handle_tasks(cloud: LocalCloud, ecs: Ecs, refusals: list[str]) -> None:
    task = ecs.start()
    janitor, proxy = (
        _client_of(cloud, "ecs", cloud.physical_ids[name]) for name in ("JanitorFunction", "ProxyFunction")
    )

    assert janitor.describe_tasks(cluster=ecs.cluster, tasks=[task])["tasks"]
    for client, call in ((janitor, "stop_task"), (proxy, "stop_task")):
        with pytest.raises(ClientError, match="not authorized to perform: ecs:StopTask"):
            getattr(client, call)(cluster=ecs.cluster, task=task)
    with pytest.raises(ClientError, match="not authorized to perform: ecs:RunTask"):
        janitor.run_task(cluster=ecs.cluster, taskDefinition=ecs.variables["TASK_DEFINITION"])
    with pytest.raises(ClientError, match="not authorized to perform: ecs:ListTasks"):
        ecs.client.list_tasks(cluster="another")
    refusals.clear()


def test_deletion_of_the_stack_ends_its_tasks_first(cloud: LocalCloud, ecs: Ecs) -> None:
    from custom_resources import redis_tasks

    task = ecs.start()
    client = _client_of(cloud, "ecs", cloud.physical_ids["RedisTasksFunction"])

    redis_tasks.end_tasks(client, {"Cluster": ecs.cluster, "Family": ecs.variables["TASK_DEFINITION"]})

    assert ecs.describe(task)["lastStatus"] == "STOPPED"


def test_control_plane_boots_and_stops_a_node_as_a_task(cloud: LocalCloud, ecs: Ecs) -> None:
    def phase() -> tuple[str, str]:
        found = cloud.invoke("RedisControlFunction", {"op": "ping", "node": "node-1"})
        return found["phase"], found["instance"]

    cloud.invoke("RedisControlFunction", {"op": "hold", "node": "node-1", "for_s": 600})
    until(lambda: phase() == ("running", "running"))
    (task,) = ecs.client.list_tasks(cluster=ecs.cluster, desiredStatus="RUNNING")["taskArns"]

    cloud.invoke("RedisControlFunction", {"op": "release", "node": "node-1"})

    until(lambda: phase() == ("stopped", "stopped"))
    assert ecs.await_status(task, "STOPPED")["stopCode"] == "UserInitiated"
