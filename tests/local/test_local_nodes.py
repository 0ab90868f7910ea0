"""Several Redis nodes of the local run: each its own instance, announced by the program that runs on it."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from burstcache.access import RedisAccess
from burstcache.adapters.redis_connection import connect
from burstcache.adapters.secrets import Secrets
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow
Node = Callable[[str], redis.Redis]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack with three nodes on EC2, of which the first never stops."""
    folder: Path = tmp_path_factory.mktemp("logs")
    parameters = {"RedisOn": "ec2", "RedisNodeCount": "3", "RedisAlwaysOnNodes": "1", "Relay": "none"}
    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder, parameters=parameters)) as running:
        yield running


def _phase(cloud: LocalCloud, node: str) -> tuple[str, str]:
    found = cloud.invoke("RedisControlFunction", {"op": "ping", "node": node})
    return found["phase"], found["instance"]


def test_node_that_never_stops_runs_and_the_others_do_not(cloud: LocalCloud) -> None:
    cloud.invoke("JanitorFunction", {})

    until(lambda: _phase(cloud, "node-1") == ("running", "running"))

    assert [_phase(cloud, node) for node in ("node-2", "node-3")] == [("stopped", "stopped")] * 2


def test_node_that_is_held_boots_and_stops_when_it_is_released(cloud: LocalCloud) -> None:
    cloud.invoke("RedisControlFunction", {"op": "hold", "node": "node-3", "for_s": 600})
    until(lambda: _phase(cloud, "node-3") == ("running", "running"))

    cloud.invoke("RedisControlFunction", {"op": "release", "node": "node-3"})

    until(lambda: _phase(cloud, "node-3") == ("stopped", "stopped"))


@pytest.fixture
def node(cloud: LocalCloud) -> Node:
    """Return a way to connect as a function to the node that never stops, once it runs."""
    cloud.invoke("JanitorFunction", {})
    until(lambda: _phase(cloud, "node-1") == ("running", "running"))
    address = cloud.outputs["RedisNodes"].partition("@")[2].partition(":")[0]

    def connect_as(function: str) -> redis.Redis:
        variables = cloud.function_variables(function)
        access = RedisAccess(
            variables["REDIS_USER"], variables["REDIS_PASSWORD_PARAMETER"], ca_pem=variables["REDIS_CA_PEM"]
        )
        return connect(address, 6379, access, Secrets(cloud.client("ssm")))

    return connect_as


def test_a_node_evicts(node: Node) -> None:
    with node("RedisControlFunction") as client:
        assert client.config_get("maxmemory*")["maxmemory-policy"] == "allkeys-lru"
        assert int(client.config_get("maxmemory")["maxmemory"]) == 768 * 1024 * 1024


def test_readers_of_a_node_read_and_no_more(node: Node) -> None:
    with node("ProxyFunction") as client:
        assert client.hget("object:none", "meta") is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.flushall()


def test_a_redis_server_that_dies_is_started_again_as_its_service_does(cloud: LocalCloud, node: Node) -> None:
    def has_it() -> bool | None:
        with node("ProxyFunction") as client:
            try:
                return client.get("object:here") is not None
            except redis.ConnectionError:
                return None

    with node("ProxyFunction") as client:
        client.set("object:here", "until Redis dies")
    instance_id, _, _ = cloud.outputs["RedisNodes"].partition("=")[2].partition("@")
    log = (cloud.run_dir / f"{instance_id}.log").read_text()
    os.kill(int(re.findall(r"^(\d+):M .*Ready to accept connections", log, re.MULTILINE)[-1]), signal.SIGKILL)

    until(lambda: has_it() is False)


def test_stack_without_nodes_serves_from_s3(tmp_path: Path) -> None:
    with LocalCloud(LocalOptions(run_dir=tmp_path, parameters={"RedisNodeCount": "0", "Relay": "none"})) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="k", Body=b"text")

        with urllib.request.urlopen(f"{cloud.front_url}/objects/k", timeout=LIMIT_S) as answer:
            assert (answer.read(), answer.headers["x-cache-tier"]) == (b"text", "s3")
        assert "RedisNodes" not in cloud.outputs
        assert "JanitorFunction" not in cloud.physical_ids  # nothing lives that it could look after
