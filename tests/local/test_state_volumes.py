"""Volumes of databases with a log (`StatePersistence` = `aof`) in the local run: replaced instances lose no write."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis import Redis

from burstcache.state import connect, state
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.roles import holder_of
from support.waiting import until

pytestmark = pytest.mark.slow

_WRITES = 2_000  # before the server is killed in mid-write


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack with databases whose logs are on volumes, one for each test."""
    parameters = {"Relay": "none", "StateDatabases": "orders,carts,bills", "StatePersistence": "aof"}
    quick = {"StateGraceS": "1", "PolicyOverrides": "redis_check_s=1"}
    folder = tmp_path_factory.mktemp("logs")
    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder, parameters=parameters | quick)) as running:
        yield running


@pytest.fixture(scope="module")
def where(cloud: LocalCloud) -> dict[str, Any]:
    """The stack, as the arguments of a holder name it."""
    return holder_of(cloud)


class Instances:
    """The database's instances: an update makes the new one before it terminates the old one."""

    def __init__(self, cloud: LocalCloud, where: dict[str, Any], database: str) -> None:
        self._cloud, self._where, self._database, self._ec2 = cloud, where, database, cloud.client("ec2")
        self.old = cloud.outputs["StateNodes"].partition(f"state-{database}=")[2].partition("@")[0]
        self.volume = self._of(self.old, "burstcache-state-volume")

    def _described(self, instance: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        return found

    def _of(self, instance: str, tag: str) -> str:
        return str(next(each["Value"] for each in self._described(instance)["Tags"] if each["Key"] == tag))

    def state(self, instance: str) -> str:
        return str(self._described(instance)["State"]["Name"])

    def holder(self) -> str:
        """Return the instance to which the volume is attached, or an empty string."""
        (volume,) = self._ec2.describe_volumes(VolumeIds=[self.volume])["Volumes"]
        return "".join(each["InstanceId"] for each in volume["Attachments"])

    def replacement(self) -> str:
        """Create another instance like the old one. It is stopped, as after the first boot."""
        old = self._described(self.old)
        data = self._ec2.describe_instance_attribute(InstanceId=self.old, Attribute="userData")["UserData"]["Value"]
        properties = {
            "ImageId": old["ImageId"],
            "InstanceType": old["InstanceType"],
            "SubnetId": old["SubnetId"],
            "UserData": data,
            "IamInstanceProfile": old["IamInstanceProfile"]["Arn"].rpartition("/")[2],
            "Tags": [each for each in old["Tags"] if not each["Key"].startswith("aws:")],
        }
        body = {"Resources": {"New": {"Type": "AWS::EC2::Instance", "Properties": properties}}}
        cloudformation = self._cloud.client("cloudformation")
        cloudformation.create_stack(StackName=f"new-{self._database}", TemplateBody=json.dumps(body))
        (new,) = cloudformation.describe_stack_resources(StackName=f"new-{self._database}")["StackResources"]
        return str(new["PhysicalResourceId"])

    def start(self, instance: str) -> None:
        self._ec2.start_instances(InstanceIds=[instance])

    def terminate(self, instance: str) -> None:
        self._ec2.terminate_instances(InstanceIds=[instance])

    def client(self, instance: str, monkeypatch: pytest.MonkeyPatch) -> Redis:
        """Return a holder's client of the database on an instance, as the updated stack names it."""
        until(lambda: self.state(instance) == "running")
        settings = json.loads(self._cloud.outputs["StateSettings"])
        address = self._described(instance)["PrivateIpAddress"]
        nodes = f"state-{self._database}={instance}@{address}:6379"
        monkeypatch.setenv("BURSTCACHE_STATE", json.dumps({**settings, "STATE_NODES": nodes}))
        return connect(self._database, decode_responses=True, **{**self._where, "stack": ""})


def test_a_replaced_instance_has_every_write_of_its_predecessor(
    cloud: LocalCloud, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = Instances(cloud, where, "orders")
    with state("orders", **where) as client:
        client.set("written", "before the update")
    until(lambda: instances.state(instances.old) == "stopped")
    new = instances.replacement()
    assert instances.holder() == instances.old  # which it leaves alone until it is needed

    instances.start(new)

    assert instances.client(new, monkeypatch).get("written") == "before the update"
    assert instances.holder() == new


@pytest.mark.weekly
def test_the_volume_is_never_taken_from_an_instance_that_runs(
    cloud: LocalCloud, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = Instances(cloud, where, "carts")
    new = instances.replacement()
    with state("carts", **where) as client:
        instances.start(new)
        log = cloud.run_dir / f"{new}.log"
        until(lambda: log.exists() and f"is attached to {instances.old}, which is running" in log.read_text())
        client.set("written", "while the new instance waits")

        assert (instances.holder(), instances.state(new)) == (instances.old, "pending")
        instances.terminate(instances.old)

    assert instances.client(new, monkeypatch).get("written") == "while the new instance waits"


@pytest.mark.weekly
def test_an_instance_that_is_killed_in_mid_write_and_replaced_has_lost_at_most_a_second(
    cloud: LocalCloud, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    instances, acknowledged_s = Instances(cloud, where, "bills"), list[float]()
    new, killed_s = instances.replacement(), 0.0

    def write(client: Redis) -> None:
        try:
            while True:
                client.rpush("writes", len(acknowledged_s))
                acknowledged_s.append(time.monotonic())
        except redis.RedisError:
            pass

    with state("bills", **where) as client:
        process_id = client.info("server")["process_id"]
        writer = threading.Thread(target=write, args=(connect("bills", **where),))
        writer.start()
        until(lambda: len(acknowledged_s) > _WRITES)
        os.kill(process_id, signal.SIGKILL)
        killed_s = time.monotonic()
        instances.terminate(instances.old)
        writer.join()

    instances.start(new)

    found = instances.client(new, monkeypatch).lrange("writes", 0, -1)
    older = sum(at_s < killed_s - 1 for at_s in acknowledged_s)
    assert found == [str(number) for number in range(len(found))]
    assert older <= len(found) <= len(acknowledged_s) + 1  # one may have been written without an answer
