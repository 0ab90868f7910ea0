"""The metrics of a stack: the one home of their names, units and dimensions, and of how they reach CloudWatch.

Functions print them as lines in the embedded metric format (EMF), of which CloudWatch Logs makes metrics: no call, no
right, nothing while nothing happens. Control functions write theirs with Powertools, which their logs have loaded
anyway. The proxy has not, and its reads are many: it gathers them (`serve.read_meter`) and writes the same format by
itself.

Source:
    Amazon CloudWatch User Guide, "Specification: Embedded metric format".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

NAMESPACE = "Burstcache"
STACK = "Stack"  # the dimension of every metric: the name of the stack
STACK_VARIABLE = "STACK_NAME"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of each stack, or one of each value of a further dimension. Each is 0.30 USD a month that has it."""

    name: str
    unit: str  # as CloudWatch knows it
    dimension: str = ""
    values: tuple[str, ...] = ()  # that the dimension may have


TIERS = ("memory", "redis", "lambda", "express", "s3")
LATENCY_MS = Metric("LatencyMs", "Milliseconds", "Tier", TIERS)  # of a read in the proxy; as many samples as reads
READ_BYTES = Metric("ReadBytes", "Bytes", "Tier", TIERS)
FAILED_READS = Metric("FailedReads", "Count")  # answered with a 5xx
FAILED_WRITES = Metric("FailedWrites", "Count")  # likewise, by the writer
FALLBACKS = Metric("Fallbacks", "Count", "Reason", ("redis_down", "relay_down", "silent", "left_alone", "other"))
LIVES = Metric("Lives", "Count", "Outcome", ("idle", "promoted", "gone", "left_redis", "superseded", "failed"))
PROMOTIONS = Metric("Promotions", "Count")  # keys that were put into Redis
NODE_SECONDS = Metric("NodeSeconds", "Seconds")  # that instances of nodes ran
COST_USD = Metric("EstimatedCostUsd", "None", "Tier", ("lambda", "redis"))  # of cache functions and nodes, with control
OVERDUE_NODES = Metric("OverdueNodes", "Count")  # that the janitor found on without an owner
# Of databases of state: their instances send these two themselves, by a call (`template.yaml`, StateProgram).
STATE_SAVES = Metric("StateSaves", "Count")  # snapshots that S3 has got
STATE_SAVE_FAILURES = Metric("StateSaveFailures", "Count")  # attempts to save or to restore that failed

METRICS = (
    LATENCY_MS, READ_BYTES, FAILED_READS, FAILED_WRITES, FALLBACKS, LIVES, PROMOTIONS, NODE_SECONDS, COST_USD,
    OVERDUE_NODES, STATE_SAVES, STATE_SAVE_FAILURES,
)  # fmt: skip

# Of programs that cache results of their functions (`burstcache.results`), which belong to no stack.
APPLICATION = "Application"
RESULT_CALLS = Metric(
    "ResultCalls", "Count", "Source",
    ("memory", "unix", "redis", "stack", "s3", "stale", "computed", "followed", "bypassed", "not_kept"),
)  # fmt: skip

MOST_VALUES = 100  # of one metric in a line


def put(*figures: tuple[Metric, float], **dimension: str) -> None:
    """Write metrics that have the same dimensions, if this process is one of a stack's functions.

    Args:
        figures: Metrics and what is added to them.
        dimension: The value of their further dimension by its name, if they have one.
    """
    if not (stack := os.environ.get(STACK_VARIABLE)):
        return
    from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

    # A service would be one dimension more.
    lines = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service="", dimension_set={STACK: stack, **dimension})
    for metric, value in figures:
        lines.add_metric(metric.name, metric.unit, value)
    write([json.dumps(lines.serialize_metric_set(), separators=(",", ":"))])


def emf_line(figures: Mapping[Metric, Sequence[float]], dimensions: Mapping[str, str], *, at_ms: int) -> str:
    """Return a line with several values of each metric, as Powertools would write it for a longer cold start.

    Args:
        figures: Up to 100 metrics with up to 100 values each.
        dimensions: All of them, by name.
        at_ms: When it was [ms].
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
    """Print lines, each as one event of the log; if that fails they are lost, and no read or step with them."""
    with suppress(OSError):
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
