"""Tasks with several containers in the local run: order, shared volume, variables, and ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burstcache_local.faults import Faults
from burstcache_local.machines.tasks import TaskRunner, TaskTimes
from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from support.waiting import until

pytestmark = pytest.mark.slow

_CLUSTER = "tasks"
_SERVE = """
trap 'echo $NAME >> $REDIS_DIR/stopped; exit 0' TERM
echo $STATE_VOLUME > $REDIS_DIR/$NAME-$RUN-$AWS_ACCESS_KEY_ID
until false; do sleep 0.05; done
"""
_STUBBORN = "trap '' TERM; echo ready > $REDIS_DIR/$NAME; until false; do sleep 0.05; done"


class Ecs:
    """ECS whose tasks have the containers `server` and `client`, which depends on the former."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._services = folder, Services()
        self._services.relay_address = "127.0.0.1"  # addresses of tasks are in its block
        self._server = MotoServer(self._services)
        self._server.start()
        self._runner = TaskRunner(self._services, TaskTimes(0, 0, 0), folder, Faults())
        self._runner.start()
        self._client = self._services.client("ecs")
        self._client.create_cluster(clusterName=_CLUSTER)

    def close(self) -> None:
        self._runner.stop()
        self._server.stop()
        self._services.close()

    def run(self, client: str = _SERVE, **more: Any) -> str:
        """Run a task with a client's program and properties of its container."""
        depends = {"dependsOn": [{"containerName": "server", "condition": "START"}]}
        containers = [_container("client", client, **depends, **more), _container("server", _SERVE)]
        definition = self._client.register_task_definition(
            family="task",
            requiresCompatibilities=["FARGATE"],
            cpu="256",
            memory="512",
            networkMode="awsvpc",
            containerDefinitions=containers,
            taskRoleArn="arn:aws:iam::123456789012:role/keeper",
            volumes=[{"name": "shared"}],
        )["taskDefinition"]["taskDefinitionArn"]
        overrides = [
            {"name": each["name"], "environment": [{"name": "RUN", "value": f"run-of-{each['name']}"}]}
            for each in containers
        ]
        network = {"awsvpcConfiguration": {"subnets": ["subnet-1"]}}
        (task,) = self._client.run_task(
            cluster=_CLUSTER,
            taskDefinition=definition,
            networkConfiguration=network,
            capacityProviderStrategy=[{"capacityProvider": "FARGATE"}],
            overrides={"containerOverrides": overrides},
        )["tasks"]
        return str(task["taskArn"])

    def describe(self, task: str) -> dict[str, Any]:
        ((found),) = self._client.describe_tasks(cluster=_CLUSTER, tasks=[task])["tasks"]
        return dict(found)

    def stop(self, task: str) -> None:
        """Stop a task, and wait for its end."""
        self._client.stop_task(cluster=_CLUSTER, task=task, reason="test")
        self.await_end(task)

    def await_end(self, task: str) -> dict[str, Any]:
        until(lambda: self.describe(task)["lastStatus"] == "STOPPED")
        return self.describe(task)

    def await_file(self, task: str, name: str) -> Path:
        """Wait until a container has written a file, and return it."""
        path = self.folder / f"task-{task.rpartition('/')[2]}" / name
        until(lambda: path.exists() and path.read_text())
        return path

    def are_over(self, task: str) -> list[bool]:
        """Return whether the process of each container that has started has ended."""
        return [process.poll() is not None for _, process in self._runner._runs[task].started]

    def stopped(self, task: str) -> list[str]:
        """Return the names of the containers that ended by themselves once they were asked to."""
        return self.await_file(task, "stopped").read_text().split()


def _container(name: str, program: str, **more: Any) -> dict[str, Any]:
    environment = [{"name": "NAME", "value": name}, {"name": "RUN", "value": "not overridden"}]
    return {"name": name, "image": "any", "entryPoint": ["sh", "-c", program], "environment": environment, **more}


@pytest.fixture
def ecs(tmp_path: Path) -> Iterator[Ecs]:
    ecs = Ecs(tmp_path)
    yield ecs
    ecs.close()


def test_containers_share_a_volume_and_a_role_and_have_variables_of_their_own(ecs: Ecs) -> None:
    task = ecs.run()

    volumes = {
        Path(ecs.await_file(task, f"{name}-run-of-{name}-keeper").read_text().strip()) for name in ("server", "client")
    }

    (volume,) = volumes
    assert volume.is_dir()
    ecs.stop(task)
    assert not volume.exists()


def test_a_task_whose_container_cannot_start_stops_with_the_reason_and_all_its_containers(ecs: Ecs) -> None:
    task = ecs.run(entryPoint=["/no/such/program"])

    ended = ecs.await_end(task)

    assert ended["stopCode"] == "TaskFailedToStart"
    assert "FileNotFoundError" in ended["stoppedReason"]
    assert "/no/such/program" in ended["stoppedReason"]
    assert ecs.are_over(task) == [True]  # the server, which started before


def test_containers_stop_one_after_the_other_those_that_depend_on_others_first(ecs: Ecs) -> None:
    task = ecs.run()
    for name in ("server", "client"):
        ecs.await_file(task, f"{name}-run-of-{name}-keeper")

    ecs.stop(task)

    assert ecs.stopped(task) == ["client", "server"]


def test_a_container_is_killed_after_its_own_time_to_stop(ecs: Ecs) -> None:
    task = ecs.run(_STUBBORN, stopTimeout=0)
    ecs.await_file(task, "client")
    ecs.await_file(task, "server-run-of-server-keeper")
    began_s = time.monotonic()

    ecs.stop(task)

    assert ecs.stopped(task) == ["server"]
    assert time.monotonic() - began_s < 30  # ECS's default


def test_an_essential_container_that_ends_ends_the_task(ecs: Ecs) -> None:
    wait = "until [ -e $REDIS_DIR/server-run-of-server-keeper ]; do sleep 0.05; done; exit 3"

    task = ecs.run(wait)

    assert ecs.await_end(task)["stopCode"] == "EssentialContainerExited"
    assert ecs.stopped(task) == ["server"]


def test_another_container_that_ends_leaves_the_task_alone(ecs: Ecs) -> None:
    task = ecs.run("echo ended > $REDIS_DIR/client", essential=False)
    ecs.await_file(task, "client")
    ecs.await_end(ecs.run("exit 3"))  # meanwhile another task runs and ends

    ecs.stop(task)

    assert ecs.describe(task)["stopCode"] == "UserInitiated"
