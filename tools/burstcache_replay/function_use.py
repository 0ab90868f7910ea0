"""Use of Lambda functions: invocations and durations, from the reports in the functions' logs.

The local run writes Lambda's REPORT lines to files. On AWS the logs are JSON, and one CloudWatch Logs Insights query
aggregates the reports. The proxy's log has no reports, so the proxy's metrics are read instead.

Source:
    AWS Lambda Developer Guide, "Log and monitor Lambda functions", "Viewing metrics for Lambda functions"; Amazon
    CloudWatch Logs User Guide, "CloudWatch Logs Insights language query syntax".
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

from burstcache.core.errors import BurstcacheError

_US_PER_S = 1_000_000
_FIGURE = re.compile(r"\t(Duration|Init Duration|Memory Size|Time): (\S+)")
_QUERY = """filter type = "platform.report"
| stats count(*) as invocations, sum(ceil(record.metrics.durationMs)) as ran_ms,
  count(record.metrics.initDurationMs) as cold_starts, sum(ceil(record.metrics.initDurationMs)) as init_ms,
  max(record.metrics.memorySizeMB) as memory_mb by @log"""
_POLL_S, _QUERY_LIMIT_S = 1.0, 120.0
_MINUTE_S = 60  # period of Lambda's metrics


class QueryFailedError(BurstcacheError):
    """A CloudWatch Logs query failed or timed out."""


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """Totals over one function's invocations. Each invocation's duration is rounded up, as on the bill."""

    invocations: int = 0
    ran_ms: int = 0  # without INIT
    cold_starts: int = 0
    init_ms: int = 0
    memory_mb: int = 0


def of_lines(lines: Iterable[str], *, since_us: int) -> FunctionUse:
    """Aggregate the REPORT lines of a local run's log since a given time [us since 1970]."""
    reports = [
        dict(_FIGURE.findall(line)) for line in lines if line.startswith("REPORT ") and _ended_us(line) >= since_us
    ]
    inits_ms = [ceil(float(report["Init Duration"])) for report in reports if "Init Duration" in report]
    return FunctionUse(
        invocations=len(reports),
        ran_ms=sum(ceil(float(report["Duration"])) for report in reports),
        cold_starts=len(inits_ms),
        init_ms=sum(inits_ms),
        memory_mb=max((int(report["Memory Size"]) for report in reports), default=0),
    )


def of_log_files(folder: Path, functions: Mapping[str, str], *, since_us: int) -> dict[str, FunctionUse]:
    """Return the use of a local run's functions since a given time, by logical id.

    Args:
        folder: The folder of the local run's logs.
        functions: Function names, by logical id. Functions that never ran have no log.
        since_us: Start of the time range, since 1970 [us].
    """
    uses = {}
    for logical_id, name in functions.items():
        path = folder / f"{name}.log"
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as lines:
                uses[logical_id] = of_lines(lines, since_us=since_us)
    return uses


def of_log_groups(
    logs: Any,
    groups: Mapping[str, str],
    *,
    since_us: int,
    until_us: int,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, FunctionUse]:
    """Return the use of a stack's functions in a time range, by logical id. AWS bills the one query per GB scanned.

    Args:
        logs: A CloudWatch Logs client.
        groups: The functions' log groups, by logical id.
        since_us: Start of the time range, since 1970 [us].
        until_us: End of the time range, since 1970 [us].
        sleep: Waits for the given time between two polls [s].

    Raises:
        QueryFailedError: The query failed, or did not complete within two minutes.
    """
    query_id = logs.start_query(
        logGroupNames=sorted(groups.values()),
        startTime=since_us // _US_PER_S,
        endTime=-(-until_us // _US_PER_S),
        queryString=_QUERY,
    )["queryId"]
    for _ in range(round(_QUERY_LIMIT_S / _POLL_S)):
        answer = logs.get_query_results(queryId=query_id)
        if answer["status"] == "Complete":
            rows = [{cell["field"]: cell["value"] for cell in row} for row in answer["results"]]
            by_group = {row["@log"].partition(":")[2]: _of_row(row) for row in rows}
            return {logical_id: by_group.get(group, FunctionUse()) for logical_id, group in groups.items()}
        if answer["status"] not in ("Scheduled", "Running"):
            raise QueryFailedError(f"the log query for function reports ended as {answer['status']}")
        sleep(_POLL_S)
    raise QueryFailedError(f"the log query for function reports has not completed within {_QUERY_LIMIT_S:.0f} s")


def of_metrics(cloudwatch: Any, name: str, memory_mb: int, *, since_us: int, until_us: int) -> FunctionUse:
    """Return a function's use from Lambda's metrics for whole minutes, without INIT.

    Durations in metrics are not rounded up. Half a millisecond is added to each invocation, which is the mean effect of
    rounding.
    """
    answer = cloudwatch.get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName="Duration",
        Dimensions=[{"Name": "FunctionName", "Value": name}],
        StartTime=datetime.fromtimestamp(since_us // _US_PER_S // _MINUTE_S * _MINUTE_S, UTC),
        EndTime=datetime.fromtimestamp(-(-until_us // _US_PER_S // _MINUTE_S) * _MINUTE_S, UTC),
        Period=_period_s(until_us - since_us),
        Statistics=["SampleCount", "Sum"],
    )
    points = answer["Datapoints"]
    invocations = round(sum(point["SampleCount"] for point in points))
    return FunctionUse(
        invocations=invocations,
        ran_ms=ceil(sum(point["Sum"] for point in points) + invocations / 2),
        memory_mb=memory_mb,
    )


def _of_row(row: Mapping[str, str]) -> FunctionUse:
    def whole(name: str) -> int:
        return round(float(row.get(name) or 0))

    return FunctionUse(*map(whole, ("invocations", "ran_ms", "cold_starts", "init_ms", "memory_mb")))


def _ended_us(line: str) -> int:
    """Return the time when an invocation ended, since 1970 [us], or 0 if the line lacks this time."""
    ended = dict(_FIGURE.findall(line)).get("Time")
    return round(datetime.fromisoformat(ended).timestamp() * _US_PER_S) if ended else 0


def _period_s(span_us: int) -> int:
    """Return the period of data points in whole minutes [s], because a response has at most 1,440 data points."""
    return _MINUTE_S * max(1, -(-span_us // (_US_PER_S * _MINUTE_S * 1_000)))
