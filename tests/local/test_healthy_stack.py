"""A stack in which nothing went wrong tells its operators of no failure."""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from burstcache.adapters.adaptive_timeout import LEAST_S
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.node_table import NodeTable
from burstcache.metrics import LATENCY_MS
from burstcache_dashboard.local_logs import LocalLogs
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.emf import samples_of_run
from support.policies import THESIS
from support.stalls import Stalls
from support.waiting import LIMIT_S, until

_STALL_S = LEAST_S / 5  # several processes take part in a read
_MOST_LIVES = 4
_OVERRIDES = "tick_s=3,lambda_threshold_s=5,redis_utilization_s=3,redis_check_s=1"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    options = LocalOptions(
        boot_s=0.2,
        stop_s=0.2,
        run_dir=tmp_path_factory.mktemp("logs"),
        parameters=THESIS | {"Relay": "nlb", "PolicyOverrides": _OVERRIDES},
    )
    with LocalCloud(options) as running:
        yield running


def _tier(cloud: LocalCloud, key: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    connection.request("GET", f"/objects/{key}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers["X-Cache-Tier"] or ""


def _executions(cloud: LocalCloud, status: Any) -> list[str]:
    states = cloud.client("stepfunctions")
    pages = [
        states.list_executions(stateMachineArn=cloud.outputs[machine], statusFilter=status)
        for machine in ("KeyLifecycleArn", "RedisNodeArn")
    ]
    return [execution["name"] for page in pages for execution in page["executions"]]


def _live(cloud: LocalCloud, key: str) -> None:
    """Let a key and its node pass through a whole life."""
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=b"text")
    before = _redis_reads_written(cloud)
    nodes = NodeTable(cloud.outputs["TableName"], cloud.client("dynamodb"), SystemClock())

    until(lambda: _tier(cloud, key) == "lambda")
    until(lambda: _tier(cloud, key) == "redis")
    until(lambda: not _executions(cloud, "RUNNING"))
    until(lambda: nodes.read("node-1").phase == "stopped")
    # The proxy writes its metrics with a later read. Each is of another key, so none gets hot.
    others = itertools.count()
    until(lambda: _tier(cloud, f"{key}/{next(others)}") and _redis_reads_written(cloud) > before)


def _redis_reads_written(cloud: LocalCloud) -> int:
    """Return the number of reads from Redis in the metrics that the functions have written."""
    written = (each.metric for each in samples_of_run(cloud.run_dir) if each.metric.name == LATENCY_MS.name)
    return sum("redis" in dict(metric.dimensions).values() for metric in written)


def test_nothing_is_counted_as_failed_after_a_whole_life_of_a_key_and_its_node(cloud: LocalCloud) -> None:
    """A reader rightly leaves a tier that has no processor in time, so a life on a stalled machine is repeated."""
    logs = LocalLogs(cloud.run_dir, SystemClock(), since_us=0)
    for number in range(_MOST_LIVES):
        before = logs.read().fallbacks
        with Stalls() as stalls:
            _live(cloud, f"burst-{number}")
        measured = logs.read()
        if measured.fallbacks == before or stalls.longest_s < _STALL_S:
            break

    assert measured.functions["RedisControlFunction"].invocations > 5
    assert {name: use.errors for name, use in measured.functions.items() if use.errors} == {}
    assert (measured.failed_reads, measured.fallbacks) == (0, before)
    assert _executions(cloud, "FAILED") == []
