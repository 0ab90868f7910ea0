"""What a deployed stack has measured in the last day: its own metrics and Lambda's, from CloudWatch."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from burstcache import metrics
from burstcache.metrics import Metric
from burstcache_cli.stack import Stack
from burstcache_dashboard.measured import FunctionUse, Measured, TierUse

_SPAN_S, _PERIOD_S = 24 * 3600, 300
_EVERY_S = 60.0  # a reading costs less than a tenth of a cent: 0.01 USD per thousand metrics
_MOST_QUERIES = 500  # of one call


@dataclass(slots=True)
class CloudWatch:
    """Asks CloudWatch at most once a minute."""

    stack: Stack
    _read_at_s: float = -_EVERY_S
    _last: Measured | None = None
    _functions: dict[str, tuple[str, int]] = field(default_factory=dict)  # logical id → name, memory [MB]

    def read(self) -> Measured:
        """Return the last day's figures, at most a minute old."""
        if self._last is None or time.monotonic() - self._read_at_s >= _EVERY_S:
            self._last, self._read_at_s = self._measured(), time.monotonic()
        return self._last

    def reads_of(self, key: str) -> None:
        """Return None: metrics do not know keys."""

    def asked_since(self, at_ms: int) -> None:
        """Return None: CloudWatch does not know which key a read was for."""

    def newest_requests(self) -> None:
        """Return None, as for a key."""

    def _measured(self) -> Measured:
        until_s = int(time.time()) // _PERIOD_S * _PERIOD_S + _PERIOD_S
        functions = self._function_names()
        series = self._asked(dict(self._queries(functions)), until_s - _SPAN_S, until_s)
        memory_mb = {logical_id: memory_mb for logical_id, (_, memory_mb) in functions.items()}
        return measured_of(series, memory_mb, until_s)

    def _queries(self, functions: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, dict[str, Any]]]:
        def own(metric: Metric, stat: str, value: str = "", period_s: int = _PERIOD_S) -> dict[str, Any]:
            dimensions = {metrics.STACK: self.stack.name} | ({metric.dimension: value} if value else {})
            return _query(metrics.NAMESPACE, metric.name, dimensions, stat, period_s)

        for number, tier in enumerate(metrics.LATENCY_MS.values):
            yield f"n{number}", own(metrics.LATENCY_MS, "SampleCount", tier)
            yield f"s{number}", own(metrics.LATENCY_MS, "Sum", tier)
            yield f"b{number}", own(metrics.READ_BYTES, "Sum", tier)
            for share in (50, 90, 99):
                yield f"p{share}_{number}", own(metrics.LATENCY_MS, f"p{share}", tier, _SPAN_S)
        yield "failed", own(metrics.FAILED_READS, "Sum")
        yield "promotions", own(metrics.PROMOTIONS, "Sum")
        yield "node_s", own(metrics.NODE_SECONDS, "Sum")
        for prefix, metric in (("fallback", metrics.FALLBACKS), ("life", metrics.LIVES)):
            for value in metric.values:
                yield f"{prefix}_{value}", own(metric, "Sum", value)
        for number, (name, _) in enumerate(functions.values()):
            for prefix, metric_name in (("i", "Invocations"), ("d", "Duration")):
                yield f"{prefix}{number}", _query("AWS/Lambda", metric_name, {"FunctionName": name}, "Sum", _PERIOD_S)

    def _asked(self, queries: Mapping[str, dict[str, Any]], since_s: int, until_s: int) -> dict[str, dict[int, float]]:
        """Return each query's values by the start of their period [s]."""
        asked = [{"Id": id_, "MetricStat": query, "ReturnData": True} for id_, query in queries.items()]
        found: dict[str, dict[int, float]] = {id_: {} for id_ in queries}
        paginator = self.stack.client("cloudwatch").get_paginator("get_metric_data")
        for start in range(0, len(asked), _MOST_QUERIES):
            part = asked[start : start + _MOST_QUERIES]
            for page in paginator.paginate(MetricDataQueries=part, StartTime=since_s, EndTime=until_s):
                for result in page["MetricDataResults"]:
                    times = (round(at.timestamp()) for at in result["Timestamps"])
                    found[result["Id"]].update(zip(times, result["Values"], strict=True))
        return found

    def _function_names(self) -> dict[str, tuple[str, int]]:
        if not self._functions:
            api = self.stack.client("lambda")
            pages = self.stack.client("cloudformation").get_paginator("list_stack_resources")
            for page in pages.paginate(StackName=self.stack.name):
                for resource in page["StackResourceSummaries"]:
                    if resource["ResourceType"] == "AWS::Lambda::Function":
                        name = resource["PhysicalResourceId"]
                        memory_mb = api.get_function_configuration(FunctionName=name)["MemorySize"]
                        self._functions[resource["LogicalResourceId"]] = name, memory_mb
        return self._functions


def measured_of(series: Mapping[str, Mapping[int, float]], memory_mb: Mapping[str, int], until_s: int) -> Measured:
    """Return what the last day's values say.

    Args:
        series: By query, the values by the start of their period [s].
        memory_mb: Of each function, by logical id, in the order of the queries [MB].
        until_s: The end of the day [s].
    """
    total = defaultdict[str, float](float, {id_: sum(values.values()) for id_, values in series.items()})
    tiers, slots = {}, dict[int, Counter[str]]()
    for number, tier in enumerate(metrics.LATENCY_MS.values):
        if not (reads := round(total[f"n{number}"])):
            continue
        for at_s, count in series[f"n{number}"].items():
            slots.setdefault(at_s, Counter())[tier] += round(count)
        p50, p90, p99 = (_newest(series.get(f"p{share}_{number}", {})) for share in (50, 90, 99))
        tiers[tier] = TierUse(reads, round(total[f"b{number}"]), total[f"s{number}"] / reads, p50, p90, p99)
    return Measured(
        since_us=(until_s - _SPAN_S) * 1_000_000,
        until_us=until_s * 1_000_000,
        tiers=tiers,
        failed_reads=round(total["failed"]),
        fallbacks=_counts(metrics.FALLBACKS, "fallback", total),
        lives=_counts(metrics.LIVES, "life", total),
        promotions=round(total["promotions"]),
        node_s=total["node_s"],
        functions={
            logical_id: FunctionUse(round(total[f"i{number}"]), round(total[f"d{number}"]), memory)
            for number, (logical_id, memory) in enumerate(memory_mb.items())
        },
        series=tuple((at_s, dict(counts)) for at_s, counts in sorted(slots.items())),
        slot_s=_PERIOD_S,
    )


def _newest(values: Mapping[int, float]) -> float | None:
    return values[max(values)] if values else None


def _query(namespace: str, name: str, dimensions: Mapping[str, str], stat: str, period_s: int) -> dict[str, Any]:
    listed = [{"Name": dimension, "Value": value} for dimension, value in dimensions.items()]
    metric = {"Namespace": namespace, "MetricName": name, "Dimensions": listed}
    return {"Metric": metric, "Period": period_s, "Stat": stat}


def _counts(metric: Metric, prefix: str, total: Mapping[str, float]) -> dict[str, int]:
    counts = {value: round(total[f"{prefix}_{value}"]) for value in metric.values}
    return {value: count for value, count in counts.items() if count}
