"""Invariants of the whole system, through the real front door, functions, machines, relay and Redis."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.key_table import KeyTable
from burstcache.core.keys import key_hash
from burstcache.core.rows import KeyRow
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.policies import THESIS
from support.processes import REDIS, processes_named, signal_named
from support.waiting import LIMIT_S, until

_OVERRIDES = "tick_s=3,lambda_threshold_s=5,redis_utilization_s=3,redis_check_s=1"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    parameters = THESIS | {"PolicyOverrides": _OVERRIDES}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path_factory.mktemp("logs"), parameters=parameters)
    with LocalCloud(options) as running:
        yield running


class Client:
    """GETs of one key, each of which must be answered with its body."""

    def __init__(self, cloud: LocalCloud, key: str, body: bytes = b"text") -> None:
        self.cloud, self.key, self.body = cloud, key, body
        self._address = urlsplit(cloud.front_url).netloc
        self.put(body)

    def put(self, body: bytes) -> None:
        self.body = body
        self.cloud.client("s3").put_object(Bucket=self.cloud.bucket_name, Key=self.key, Body=body)

    def ask(self) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(self._address, timeout=LIMIT_S)
        connection.request("GET", f"/objects/{self.key}")
        answer = connection.getresponse()
        status, tier, body = answer.status, answer.headers["X-Cache-Tier"], answer.read()
        connection.close()
        return status, tier, body

    def tier(self) -> str:
        status, tier, body = self.ask()
        assert (status, body) == (200, self.body)
        return tier

    def reach(self, tier: str) -> None:
        until(lambda: self.tier() == tier)

    def row(self) -> KeyRow:
        keys = KeyTable(self.cloud.outputs["TableName"], self.cloud.client("dynamodb"), SystemClock())
        row = keys.read(key_hash(self.key))
        assert row is not None
        return row

    def execution(self) -> dict[str, Any]:
        arn = self.cloud.outputs["KeyLifecycleArn"].replace(":stateMachine:", ":execution:")
        states = self.cloud.client("stepfunctions")
        return dict(states.describe_execution(executionArn=f"{arn}:{self.row().execution_name}"))


def running(cloud: LocalCloud) -> list[str]:
    """Return the names of the executions under way."""
    states = cloud.client("stepfunctions")
    pages = [
        states.list_executions(stateMachineArn=cloud.outputs[machine], statusFilter="RUNNING")
        for machine in ("KeyLifecycleArn", "RedisNodeArn")
    ]
    return [execution["name"] for page in pages for execution in page["executions"]]


def test_write_straight_to_s3_is_seen_while_a_cache_function_serves(cloud: LocalCloud) -> None:
    client = Client(cloud, "written-1", b"old")
    client.reach("lambda")

    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=client.key, Body=b"new")

    until(lambda: client.ask()[2] == b"new")


def test_write_straight_to_s3_is_seen_while_redis_serves(cloud: LocalCloud) -> None:
    client = Client(cloud, "written-2", b"old")
    client.reach("redis")

    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=client.key, Body=b"new")

    until(lambda: client.ask()[2] == b"new")


def test_deleted_object_is_absent_while_redis_serves(cloud: LocalCloud) -> None:
    client = Client(cloud, "deleted")
    client.reach("redis")

    cloud.client("s3").delete_object(Bucket=cloud.bucket_name, Key=client.key)

    until(lambda: client.ask()[0] == 404)


def test_every_get_is_answered_while_redis_is_killed(cloud: LocalCloud) -> None:
    client = Client(cloud, "killed")
    client.reach("redis")

    signal_named(REDIS, signal.SIGKILL)
    tiers = [client.tier() for _ in range(20)]

    assert "s3" in tiers


def test_every_get_is_answered_while_the_relay_is_killed(cloud: LocalCloud) -> None:
    until(lambda: not running(cloud))  # a running node would take the key at once
    client = Client(cloud, "relay")
    client.reach("lambda")

    signal_named("nats-server", signal.SIGKILL)
    tiers = [client.tier() for _ in range(10)]

    assert "s3" in tiers
    client.reach("redis")  # the life goes on: its promotion needs no relay


def test_cache_function_that_is_killed_is_replaced_and_every_get_is_answered(cloud: LocalCloud) -> None:
    until(lambda: not running(cloud))  # a running node would take the key at once
    client = Client(cloud, "killed-holder")
    assert [client.tier() for _ in range(2)] == ["s3"] * 2  # hot; more would have it promoted
    until(lambda: running(cloud))
    holder = until(lambda: client.row().holder)

    assert cloud.kill("CacheFunction")
    assert client.tier() == "s3"
    until(lambda: client.tier() and client.row().holder not in ("", holder))

    assert client.row().attempt == 1
    client.reach("redis")
    ended = until(lambda: (e := client.execution())["status"] != "RUNNING" and e)
    assert (ended["status"], client.row().failures) == ("SUCCEEDED", 0)


def test_object_that_vanishes_before_its_life_begins_ends_it_as_gone_without_a_cool_down(cloud: LocalCloud) -> None:
    client = Client(cloud, "vanished")
    client.tier()
    cloud.client("s3").delete_object(Bucket=cloud.bucket_name, Key=client.key)

    answer = cloud.invoke("SchedulerFunction", {"detail-type": "KeyStartRequested", "detail": {"key": client.key}})

    assert answer == {"outcome": "started"}
    until(lambda: client.row().phase == "s3")
    ended = until(lambda: (e := client.execution())["status"] != "RUNNING" and e)
    assert (ended["status"], json.loads(ended["output"])["outcome"]) == ("SUCCEEDED", "gone")
    assert (client.row().failures, client.row().not_before_us) == (0, 0)


def test_life_that_a_person_stops_is_cleaned_up_as_soon_as_step_functions_tells(cloud: LocalCloud) -> None:
    until(lambda: not running(cloud))  # a running node would take the key at once
    client = Client(cloud, "stopped-by-hand")
    client.reach("lambda")

    cloud.client("stepfunctions").stop_execution(executionArn=client.execution()["executionArn"])
    until(lambda: client.row().phase == "s3")

    log = cloud.run_dir / f"{cloud.physical_ids['JanitorFunction']}.log"
    until(lambda: log.exists() and '"keys":["stopped-by-hand"]' in log.read_text())
    assert client.row().failures == 1


def test_everything_is_off_in_the_end(cloud: LocalCloud) -> None:
    until(lambda: not running(cloud))

    assert until(lambda: not processes_named(REDIS))
    assert cloud.invoke("JanitorFunction", {}) == {"keys": [], "nodes": [], "paused": []}
