"""A stack in which nothing went wrong tells its operators of no failure."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.node_table import NodeTable
from burstcache_dashboard.local_logs import LocalLogs
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.policies import THESIS
from support.waiting import LIMIT_S, until

_KEY = "burst"
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


def _tier(cloud: LocalCloud) -> str:
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    connection.request("GET", f"/objects/{_KEY}")
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


def test_nothing_is_counted_as_failed_after_a_whole_life_of_a_key_and_its_node(cloud: LocalCloud) -> None:
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_KEY, Body=b"text")
    nodes = NodeTable(cloud.outputs["TableName"], cloud.client("dynamodb"), SystemClock())

    until(lambda: _tier(cloud) == "lambda")
    until(lambda: _tier(cloud) == "redis")
    until(lambda: not _executions(cloud, "RUNNING"))
    until(lambda: nodes.read("node-1").phase == "stopped")

    measured = LocalLogs(cloud.run_dir, SystemClock(), since_us=0).read()
    assert measured.functions["RedisControlFunction"].invocations > 5
    assert {name: use.errors for name, use in measured.functions.items() if use.errors} == {}
    assert (measured.failed_reads, measured.fallbacks) == (0, {})
    assert _executions(cloud, "FAILED") == []
