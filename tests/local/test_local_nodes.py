"""Several Redis nodes of the local run: each its own instance, announced by the program that runs on it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack with three nodes, of which the first never stops."""
    folder: Path = tmp_path_factory.mktemp("logs")
    parameters = {"RedisNodeCount": "3", "RedisAlwaysOnNodes": "1", "Relay": "none"}
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


def test_stack_without_nodes_serves_from_s3(tmp_path: Path) -> None:
    with LocalCloud(LocalOptions(run_dir=tmp_path, parameters={"RedisNodeCount": "0", "Relay": "none"})) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="k", Body=b"text")

        with urllib.request.urlopen(f"{cloud.front_url}/objects/k", timeout=LIMIT_S) as answer:
            assert (answer.read(), answer.headers["x-cache-tier"]) == (b"text", "s3")
        assert "RedisNodes" not in cloud.outputs
        assert "JanitorFunction" not in cloud.physical_ids  # nothing lives that it could look after
