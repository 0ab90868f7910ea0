"""What Lambda functions ran: their invocations, as Lambda reports each in a log.

The local run writes Lambda's REPORT lines into files. On a stack, whose logs are JSON, one query of CloudWatch Logs
Insights adds the reports up where they are; the proxy's log leaves them out, so that its metrics are asked.

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
_MINUTE_S = 60  # the period of Lambda's metrics


class QueryFailedError(BurstcacheError):
    """CloudWatch Logs has not answered a query."""


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """The invocations of one function; each duration is rounded up, as it is billed."""

    invocations: int = 0
    ran_ms: int = 0  # without INIT
    cold_starts: int = 0
    init_ms: int = 0
    memory_mb: int = 0


def of_lines(lines: Iterable[str], *, since_us: int) -> FunctionUse:
    """Return what the REPORT lines of a local run's log add up to, from an instant on [us since 1970]."""
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
    """Return what functions of a local run took from an instant on, by their logical ids.

    Args:
        folder: The local run's logs.
        functions: Their names, by logical id; those that never ran have no log.
        since_us: Since 1970 [us].
    """
    found = {}
    for logical_id, name in functions.items():
        path = folder / f"{name}.log"
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as lines:
                found[logical_id] = of_lines(lines, since_us=since_us)
    return found


def of_log_groups(
    logs: Any,
    groups: Mapping[str, str],
    *,
    since_us: int,
    until_us: int,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, FunctionUse]:
    """Return what functions of a stack took in a time, by their logical ids; one query, billed by the GB that it reads.

    Args:
        logs: A client of CloudWatch Logs.
        groups: Their log groups, by logical id.
        since_us: Since 1970 [us].
        until_us: Since 1970 [us].
        sleep: Waits between two questions for the result [s].

    Raises:
        QueryFailedError: The query ended without a result, or not within two minutes.
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
            raise QueryFailedError(f"the query of the functions' reports ended as {answer['status']}")
        sleep(_POLL_S)
    raise QueryFailedError(f"the query of the functions' reports has not ended within {_QUERY_LIMIT_S:.0f} s")


def of_metrics(cloudwatch: Any, name: str, memory_mb: int, *, since_us: int, until_us: int) -> FunctionUse:
    """Return what a function took by Lambda's metrics, by whole minutes, without INIT.

    They round no duration: half a millisecond each is what billing adds on average.
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
    """Return when an invocation ended; 0 if its line does not say so [us]."""
    ended = dict(_FIGURE.findall(line)).get("Time")
    return round(datetime.fromisoformat(ended).timestamp() * _US_PER_S) if ended else 0


def _period_s(span_us: int) -> int:
    """Return the length of a point, in whole minutes: an answer has at most 1,440 of them."""
    return _MINUTE_S * max(1, -(-span_us // (_US_PER_S * _MINUTE_S * 1_000)))
