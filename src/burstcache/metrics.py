"""Metrics of a stack, and of programs that cache results: names, units, dimensions, and output to CloudWatch.

Functions print lines in the embedded metric format (EMF), which CloudWatch Logs turns into metrics. This needs no API
call and no permission, and costs nothing while idle. Control functions print each value (`put`). The proxy and programs
write their many values in batches (`MetricBatch`). Powertools would write the same lines, but its import adds 10 to
50 ms to the proxy's cold start.

Source:
    Amazon CloudWatch User Guide, "Specification: Embedded metric format".
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clock import Clock, Instant, SystemClock, instant, seconds_since

NAMESPACE = "Burstcache"
STACK = "Stack"  # dimension of every metric: the stack's name
STACK_VARIABLE = "STACK_NAME"


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, since each read uses metrics as dictionary keys
class Metric:
    """A metric per stack, or per stack and value of a second dimension. Each costs 0.30 USD per month of use."""

    name: str
    unit: str  # CloudWatch's name of the unit
    dimension: str = ""
    values: tuple[str, ...] = ()  # possible values of the dimension


TIERS = ("memory", "redis", "lambda", "express", "s3")
LATENCY_MS = Metric("LatencyMs", "Milliseconds", "Tier", TIERS)  # of each read in the proxy, unsampled
READ_BYTES = Metric("ReadBytes", "Bytes", "Tier", TIERS)
FAILED_READS = Metric("FailedReads", "Count")  # 5xx responses of the proxy
FAILED_WRITES = Metric("FailedWrites", "Count")  # 5xx responses of the writer
FALLBACKS = Metric("Fallbacks", "Count", "Reason", ("redis_down", "relay_down", "silent", "left_alone", "other"))
LIVES = Metric("Lives", "Count", "Outcome", ("idle", "promoted", "gone", "left_redis", "superseded", "failed"))
PROMOTIONS = Metric("Promotions", "Count")  # of keys into Redis
NODE_SECONDS = Metric("NodeSeconds", "Seconds")  # runtime of the nodes' instances
COST_USD = Metric("EstimatedCostUsd", "None", "Tier", ("lambda", "redis"))  # of cache functions' and nodes' time
OVERDUE_NODES = Metric("OverdueNodes", "Count")  # running without an owner, as found by the janitor
# Instances of state databases send these two with an API call (`instance/burstcache_state.py`).
STATE_SAVES = Metric("StateSaves", "Count")  # snapshots stored in S3
STATE_SAVE_FAILURES = Metric("StateSaveFailures", "Count")  # failed attempts to save or restore

METRICS = (
    LATENCY_MS, READ_BYTES, FAILED_READS, FAILED_WRITES, FALLBACKS, LIVES, PROMOTIONS, NODE_SECONDS, COST_USD,
    OVERDUE_NODES, STATE_SAVES, STATE_SAVE_FAILURES,
)  # fmt: skip

# For programs that cache function results (`burstcache.results`), independent of stacks.
APPLICATION = "Application"
RESULT_CALLS = Metric(
    "ResultCalls", "Count", "Source",
    ("memory", "unix", "redis", "stack", "s3", "stale", "computed", "followed", "bypassed", "not_kept"),
)  # fmt: skip

MOST_VALUES = 100  # EMF's limit per metric and line
BATCH_S = 10.0


def put(*figures: tuple[Metric, float], **dimension: str) -> None:
    """Write metrics with the same dimensions. Do nothing outside of a stack's functions.

    Args:
        figures: Metrics and their values.
        dimension: Name and value of the metrics' second dimension, if they have one.
    """
    if stack := os.environ.get(STACK_VARIABLE):
        values = {metric: [value] for metric, value in figures}
        write([emf_line(values, {STACK: stack, **dimension}, at_ms=SystemClock().now_us() // 1000)])


class MetricBatch:
    """A batch of metric values, written during a later read, since a frozen environment cannot run a timer.

    All lines of a batch have the timestamp of its first value, so a due batch is written before a value is added. A
    reclaimed environment loses the values of its last ten seconds of work.
    """

    def __init__(self, clock: Clock, dimensions: Mapping[str, str]) -> None:
        """Start an empty batch.

        Args:
            clock: Timestamps batches, and measures their age.
            dimensions: The dimensions of all metrics, by name. Each metric may have one more.
        """
        self._clock = clock
        self._dimensions = dimensions
        self._values = _no_values()
        self._began: Instant | None = None
        self.is_full = False  # whether a metric has as many values as a line can contain

    @property
    def is_due(self) -> bool:
        """Whether the batch began at least ten seconds ago."""
        return self._began is not None and seconds_since(self._clock, self._began) >= BATCH_S

    def add(self, value: str, *figures: tuple[Metric, float]) -> None:
        """Add one sample to each of several metrics. `value` is the value of their shared second dimension."""
        samples = self._line(figures[0][0], value)
        for metric, sample in figures:
            samples[metric].append(sample)
        if len(samples[metric]) == MOST_VALUES:
            self.is_full = True

    def count(self, metric: Metric, value: str = "") -> None:
        """Add 1 to a metric. `value` is the value of its second dimension, if it has one."""
        counts = self._line(metric, value)[metric]
        counts[:] = [sum(counts) + 1]

    def take(self) -> list[str]:
        """Return the batch as lines, and start a new one."""
        at_ms = 0 if self._began is None else self._began.at_us // 1000
        lines = [
            emf_line(values, {**self._dimensions, name: value} if name else self._dimensions, at_ms=at_ms)
            for (name, value), values in self._values.items()
        ]
        self._values, self._began, self.is_full = _no_values(), None, False
        return lines

    def _line(self, metric: Metric, value: str) -> defaultdict[Metric, list[float]]:
        if self._began is None:
            self._began = instant(self._clock)
        return self._values[metric.dimension, value]


def _no_values() -> defaultdict[tuple[str, str], defaultdict[Metric, list[float]]]:
    """Return an empty batch, which maps each second dimension and its value to the values of metrics."""
    return defaultdict(lambda: defaultdict(list))


def emf_line(figures: Mapping[Metric, Sequence[float]], dimensions: Mapping[str, str], *, at_ms: int) -> str:
    """Return a line with metrics and their values, in the same form as Powertools.

    Args:
        figures: Up to 100 metrics with up to 100 values each.
        dimensions: All dimensions, by name.
        at_ms: Timestamp [ms].
    """
    about = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": metric.name, "Unit": metric.unit} for metric in figures],
    }
    line: dict[str, Any] = {"_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [about]}, **dimensions}
    line.update({metric.name: list(values) for metric, values in figures.items()})
    return json.dumps(line, separators=(",", ":"))


def write(lines: Iterable[str]) -> None:
    """Print lines, each as one log event. Errors are ignored, since lost metrics must not fail a read or step."""
    text = "".join(f"{line}\n" for line in lines)
    if not text or sys.stdout is None:  # None: a program without a console on Windows
        return
    with suppress(OSError, ValueError):  # ValueError: the output is closed
        sys.stdout.write(text)
        sys.stdout.flush()
