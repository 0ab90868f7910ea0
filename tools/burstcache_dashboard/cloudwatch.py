"""A deployed stack's CloudWatch metrics for the last day: its own metrics, and metrics of AWS services."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from burstcache import metrics
from burstcache.metrics import Metric
from burstcache_cli.metric_queries import Query, values_of
from burstcache_cli.service_use import queries_of, use_of
from burstcache_cli.stack import Stack
from burstcache_dashboard.measured import FunctionUse, Measured, TierUse

_SPAN_S, _PERIOD_S = 24 * 3600, 300
_INTERVAL_S = 60.0  # one read costs less than 0.001 USD, at 0.01 USD per thousand metrics


@dataclass(slots=True)
class CloudWatch:
    """A source of figures from CloudWatch, which is queried at most once a minute."""

    stack: Stack
    _read_at_s: float = -_INTERVAL_S
    _last: Measured | None = None
    _functions: dict[str, tuple[str, int]] = field(default_factory=dict)  # logical id → name, memory [MB]

    def read(self) -> Measured:
        """Return the figures for the last day, cached for up to a minute."""
        if self._last is None or time.monotonic() - self._read_at_s >= _INTERVAL_S:
            self._last, self._read_at_s = self._measured(), time.monotonic()
        return self._last

    def reads_of(self, key: str) -> None:
        """Return None, because metrics are not recorded per key."""

    def keys_read_since(self, at_ms: int) -> None:
        """Return None, because metrics are not recorded per key."""

    def newest_requests(self) -> None:
        """Return None, because metrics aggregate requests."""

    def _measured(self) -> Measured:
        until_s = int(time.time()) // _PERIOD_S * _PERIOD_S + _PERIOD_S
        functions = self._functions_by_id()
        queries = {**dict(self._queries(functions)), **queries_of(self.stack.resources, _PERIOD_S)}
        cloudwatch = self.stack.client("cloudwatch")
        series = values_of(cloudwatch, queries, since_s=until_s - _SPAN_S, until_s=until_s)
        memory_mb = {logical_id: memory_mb for logical_id, (_, memory_mb) in functions.items()}
        return measured_of(series, memory_mb, until_s, created_s=int(self.stack.created_s))

    def _queries(self, functions: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, Query]]:
        def own(metric: Metric, stat: str, value: str = "", period_s: int = _PERIOD_S) -> Query:
            dimensions = {metrics.STACK: self.stack.name} | ({metric.dimension: value} if value else {})
            return Query(metrics.NAMESPACE, metric.name, dimensions, stat, period_s)

        for metric in metrics.METRICS:
            for value in metric.values or ("",):
                yield f"{metric.name} {value}", own(metric, "Sum", value)
        for tier in metrics.LATENCY_MS.values:
            yield f"reads {tier}", own(metrics.LATENCY_MS, "SampleCount", tier)
            for share in (50, 90, 99):
                yield f"p{share} {tier}", own(metrics.LATENCY_MS, f"p{share}", tier, _SPAN_S)
        for logical_id, (name, _) in functions.items():
            for metric_name in ("Invocations", "Duration", "Errors", "Throttles"):
                dimensions = {"FunctionName": name}
                yield f"{metric_name} {logical_id}", Query("AWS/Lambda", metric_name, dimensions, "Sum", _PERIOD_S)

    def _functions_by_id(self) -> dict[str, tuple[str, int]]:
        if not self._functions:
            self._functions = {
                logical_id: (name, self.stack.configuration(name)["MemorySize"])
                for logical_id, name in self.stack.functions.items()
            }
        return self._functions


def measured_of(
    series: Mapping[str, Mapping[int, float]], memory_mb: Mapping[str, int], until_s: int, *, created_s: int = 0
) -> Measured:
    """Compute the figures for the last day from metric values.

    Args:
        series: Each query's values by the start of the value's period [s].
        memory_mb: Memory of each function, by logical id [MB].
        until_s: End of the day [s].
        created_s: The stack's creation time [s], which shortens the period for a stack younger than a day.
    """
    total = defaultdict[str, float](float, {name: sum(values.values()) for name, values in series.items()})
    tiers, slots = {}, dict[int, Counter[str]]()
    for tier in metrics.LATENCY_MS.values:
        if not (reads := round(total[f"reads {tier}"])):
            continue
        for at_s, count in series[f"reads {tier}"].items():
            slots.setdefault(at_s, Counter())[tier] += round(count)
        mean_ms = _total(metrics.LATENCY_MS, total, tier) / reads
        p50, p90, p99 = (_newest(series.get(f"p{share} {tier}", {})) for share in (50, 90, 99))
        tiers[tier] = TierUse(reads, round(_total(metrics.READ_BYTES, total, tier)), mean_ms, p50, p90, p99)
    return Measured(
        since_us=max(until_s - _SPAN_S, created_s) * 1_000_000,
        until_us=until_s * 1_000_000,
        tiers=tiers,
        failed_reads=round(_total(metrics.FAILED_READS, total)),
        fallbacks=_counts(metrics.FALLBACKS, total),
        lives=_counts(metrics.LIVES, total),
        promotions=round(_total(metrics.PROMOTIONS, total)),
        node_s=_total(metrics.NODE_SECONDS, total),
        functions={
            name: FunctionUse(
                invocations=round(total[f"Invocations {name}"]),
                billed_ms=round(total[f"Duration {name}"]),
                memory_mb=memory,
                errors=round(total[f"Errors {name}"]),
                failed_at_s=_newest_at_s(series, f"Errors {name}"),
                throttles=round(total[f"Throttles {name}"]),
            )
            for name, memory in memory_mb.items()
        },
        series=tuple((at_s, dict(counts)) for at_s, counts in sorted(slots.items())),
        slot_s=_PERIOD_S,
        services=use_of(series),
        failed_read_at_s=_newest_at_s(series, f"{metrics.FAILED_READS.name} "),
        fell_back_at_s={
            reason: _newest_at_s(series, f"{metrics.FALLBACKS.name} {reason}") for reason in metrics.FALLBACKS.values
        },
        metric_h=_metric_hours(series),
    )


def _metric_hours(series: Mapping[str, Mapping[int, float]]) -> int:
    """Return the billed metric-hours: the hours with values, summed over the stack's own metrics [h]."""
    own = (f"{metric.name} {value}" for metric in metrics.METRICS for value in metric.values or ("",))
    return sum(len({at_s // 3600 for at_s in series.get(name, ())}) for name in own)


def _total(metric: Metric, total: Mapping[str, float], value: str = "") -> float:
    return total[f"{metric.name} {value}"]


def _newest_at_s(series: Mapping[str, Mapping[int, float]], name: str) -> int:
    """Return the start of the newest period with a value above 0 [s], or 0 if there is none."""
    return max((at_s for at_s, count in series.get(name, {}).items() if count), default=0)


def _newest(values: Mapping[int, float]) -> float | None:
    return values[max(values)] if values else None


def _counts(metric: Metric, total: Mapping[str, float]) -> dict[str, int]:
    counts = {value: round(_total(metric, total, value)) for value in metric.values}
    return {value: count for value, count in counts.items() if count}
