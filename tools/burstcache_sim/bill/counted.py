"""AWS usage of a deployed stack from counted work: table, events, state machines, logs, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.control import LOG_BYTES, ControlCounts, control_usage, metrics_usage
from burstcache_sim.bill.cost import Usage, add
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import READ_LOG_BYTES, queue_requests

_EVENTUAL_READ = Fraction(1, 2)  # units per digest read, which is eventually consistent


@dataclass(frozen=True, slots=True)
class StackCounts:
    """A stack's work in a period, from its own metrics."""

    reads: Mapping[str, int]  # reads through the front door, by tier
    busy_s: int  # seconds with at least one read
    messages: int  # messages from readers to the scheduler, one event each
    gathers: bool  # whether readers batch their reports, as with node-use policies
    calls: int  # invocations of all functions except the proxy
    origin_calls: int  # of the origin function among them
    steps: ControlCounts


def counted_usage(counts: StackCounts, setup: Setup, period_us: int) -> Usage:
    """Return a stack's usage, except function durations and requests, which are billed separately.

    The formulas are the same as in `live_usage`, with counts instead of simulated figures. Figures without counts are
    upper bounds. Each call of the origin function counts as one event of the queue.
    """
    control = control_usage(counts.steps)
    metrics = metrics_usage(counts.steps, counts.reads.values(), period_us)
    reads = sum(counts.reads.values())
    logged_bytes = LOG_BYTES * counts.calls + READ_LOG_BYTES * reads
    return add(
        (
            _table_and_events(counts, setup, reads),
            Usage(dynamodb_writes=control.dynamodb_writes, dynamodb_reads=control.dynamodb_reads),
            Usage(transitions=control.transitions, metric_h=metrics.metric_h),
            Usage(queue_requests=queue_requests(counts.origin_calls, setup)),
            Usage(logs_gb=Fraction(logged_bytes, BYTES_PER_GB)),
        )
    )


def _table_and_events(counts: StackCounts, setup: Setup, reads: int) -> Usage:
    """Return the usage of reports and digest reads. Each second with a read has one digest read.

    A batched report reads the node row and the use row, writes the use row, and reads one row per reported request at
    half price. With cache functions, each read from S3 also updates its key's row.
    """
    digest = _EVENTUAL_READ * min(counts.busy_s, reads)
    if not counts.gathers:
        return Usage(events_64kb=counts.messages, dynamodb_writes=counts.messages, dynamodb_reads=digest)
    learned = counts.reads.get("s3", 0) if setup.relay != "none" else 0
    return Usage(
        events_64kb=counts.messages,
        dynamodb_writes=counts.messages + learned,
        dynamodb_reads=digest + 2 * counts.messages + -(-reads // 2) + learned,
    )
