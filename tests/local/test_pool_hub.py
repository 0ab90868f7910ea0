"""A client that members cannot dial reads through a hub that the local run starts for it, as ECS would."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from burstcache.client import Client
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.processes import processes_running
from support.waiting import until

_BODY = random.Random(1).randbytes(20_000_003)
_LARGE_BODY = random.Random(2).randbytes(100_000_000)
_MOST_HUB_BYTES = 300_000_000


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    parameters = {
        "PoolMembers": "12",
        "PoolMemoryMb": "512",
        "PoolHub": "fargate",
        "Relay": "none",
        "RedisNodeCount": "0",
    }
    with LocalCloud(LocalOptions(parameters=parameters)) as running:
        yield running


@pytest.fixture
def client(cloud: LocalCloud) -> Iterator[Client]:
    s3 = cloud.client("s3")
    session = boto3.Session("local", "local", region_name=s3.meta.region_name)
    urls = {"": s3.meta.endpoint_url}
    with Client(stack_name="burstcache", session=session, endpoint_urls=urls, memory_bytes=0) as opened:
        yield opened


def _hubs() -> list[int]:
    """Return the hubs that this process has started."""
    return processes_running("hub_service")


def _most_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024


def test_objects_come_through_a_hub_and_are_right_while_it_is_replaced(cloud: LocalCloud, client: Client) -> None:
    cloud.client("s3").put_object(Bucket=client.bucket_name, Key="large", Body=_BODY)
    assert _hubs() == []

    def is_pooled() -> bool:
        found = client.get("large")
        assert found.body == _BODY
        return found.tier == "pool"

    until(is_pooled)
    (hub,) = _hubs()

    os.kill(hub, signal.SIGKILL)
    assert client.get("large").body == _BODY  # from S3, or in part
    until(is_pooled)

    (other,) = _hubs()
    assert other != hub


def test_a_hub_holds_no_large_object(cloud: LocalCloud, client: Client) -> None:
    cloud.client("s3").put_object(Bucket=client.bucket_name, Key="larger", Body=_LARGE_BODY)

    def has_passed() -> bool:
        with client.open("larger") as file:
            assert b"".join(file.parts()) == _LARGE_BODY
            return file.tier == "pool"

    until(has_passed)

    (hub,) = _hubs()
    assert _most_bytes(hub) < _MOST_HUB_BYTES


def test_a_hub_that_is_no_longer_wanted_says_so_and_ends(cloud: LocalCloud, client: Client) -> None:
    cloud.client("s3").put_object(Bucket=client.bucket_name, Key="small", Body=b"s" * 9_000_000)
    client.get("small")
    until(_hubs)
    cluster = cloud.physical_ids["RelayCluster"]
    service = cloud.function_variables("PoolControlFunction")["POOL_HUB_SERVICE"].partition("/")[2]

    cloud.client("ecs").update_service(cluster=cluster, service=service, desiredCount=0)

    until(lambda: not _hubs())
    log = Path(cloud.run_dir / f"{service}.log").read_text()
    assert "Traceback" not in log


def test_the_self_test_tries_the_right_to_start_a_hub(cloud: LocalCloud) -> None:
    tested = cloud.invoke("PoolControlFunction", {"op": "self_test", "run": "hub"})

    (hub,) = [tried for tried in tested["tried"] if tried["part"] == "hub"]
    assert hub["problem"] == ""
