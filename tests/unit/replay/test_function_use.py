"""Function use from the local run's REPORT lines, from a query of a stack's logs, and from Lambda's metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber
from moto import mock_aws

from burstcache_replay.function_use import (
    FunctionUse,
    QueryFailedError,
    of_lines,
    of_log_files,
    of_log_groups,
    of_metrics,
)

_SINCE_US = 1_700_000_000_000_000
_LOG = """START RequestId: a Version: $LATEST
REPORT RequestId: a\tDuration: 9.01 ms\tMemory Size: 512 MB\tTime: 2023-11-14T22:13:19+00:00
{"message": "REPORT RequestId: none"}
REPORT RequestId: b\tDuration: 9.01 ms\tMemory Size: 512 MB\tInit Duration: 100.5 ms\tTime: 2023-11-14T22:13:21.5+00:00
REPORT RequestId: c\tDuration: 20.00 ms\tBilled Duration: 20 ms\tMemory Size: 512 MB\tTime: 2023-11-14T22:13:22+00:00
"""
_GROUPS = {"CacheFunction": "/aws/lambda/cache", "SchedulerFunction": "/aws/lambda/scheduler"}


@pytest.fixture
def logs() -> Iterator[tuple[Any, Stubber]]:
    client = boto3.client("logs", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        stubber.add_response("start_query", {"queryId": "q"}, {
            "logGroupNames": sorted(_GROUPS.values()), "startTime": 1_700_000_000, "endTime": 1_700_000_061,
            "queryString": ANY,
        })  # fmt: skip
        yield client, stubber


def query(client: Any, waits: list[float]) -> dict[str, FunctionUse]:
    until_us = _SINCE_US + 60_500_000
    return of_log_groups(client, _GROUPS, since_us=_SINCE_US, until_us=until_us, sleep=waits.append)


def test_reports_since_an_instant_add_up_each_rounded_to_what_is_billed() -> None:
    found = of_lines(_LOG.splitlines(), since_us=_SINCE_US)

    assert found == FunctionUse(invocations=2, ran_ms=30, cold_starts=1, init_ms=101, memory_mb=512)


def test_a_function_that_never_ran_has_no_log(tmp_path: Path) -> None:
    (tmp_path / "proxy.log").write_text(_LOG)

    found = of_log_files(tmp_path, {"Proxy": "proxy", "Cache": "cache"}, since_us=_SINCE_US)

    assert {name: use.invocations for name, use in found.items()} == {"Proxy": 2}


def test_a_query_is_waited_for_and_its_rows_belong_to_functions(logs: tuple[Any, Stubber]) -> None:
    client, stubber = logs
    row = {
        "@log": "123456789012:/aws/lambda/cache", "invocations": "2", "ran_ms": "7000.0", "cold_starts": "1",
        "init_ms": "310", "memory_mb": "256",
    }  # fmt: skip
    stubber.add_response("get_query_results", {"status": "Running", "results": []}, {"queryId": "q"})
    results = [[{"field": name, "value": value} for name, value in row.items()]]
    stubber.add_response("get_query_results", {"status": "Complete", "results": results}, {"queryId": "q"})
    waits: list[float] = []

    found = query(client, waits)

    assert found == {"CacheFunction": FunctionUse(2, 7_000, 1, 310, 256), "SchedulerFunction": FunctionUse()}
    assert len(waits) == 1


def test_a_query_that_fails_is_an_error(logs: tuple[Any, Stubber]) -> None:
    client, stubber = logs
    stubber.add_response("get_query_results", {"status": "Failed", "results": []}, {"queryId": "q"})

    with pytest.raises(QueryFailedError, match="ended as Failed"):
        query(client, [])


@pytest.fixture
def cloudwatch() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("cloudwatch", region_name="us-east-1")


def test_a_function_whose_log_has_no_reports_is_counted_by_its_metrics(cloudwatch: Any) -> None:
    for after_s, duration_ms in ((-90, 1_000.0), (0, 8.2), (130, 9.4)):
        cloudwatch.put_metric_data(
            Namespace="AWS/Lambda",
            MetricData=[{
                "MetricName": "Duration", "Value": duration_ms, "Timestamp": _SINCE_US // 1_000_000 + after_s,
                "Dimensions": [{"Name": "FunctionName", "Value": "proxy"}],
            }],
        )  # fmt: skip

    found = of_metrics(cloudwatch, "proxy", 512, since_us=_SINCE_US, until_us=_SINCE_US + 200_000_000)

    assert found == FunctionUse(invocations=2, ran_ms=19, memory_mb=512)  # 8.2 and 9.4, billed as 9 and 10
