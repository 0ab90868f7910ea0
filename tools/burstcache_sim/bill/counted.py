"""What a stack that runs takes of table, events, machines, logs and metrics, by what it has counted of its own work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.control import LOG_BYTES, Steps, control_usage, metrics_usage
from burstcache_sim.bill.cost import Usage, add
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import READ_LOG_BYTES

_EVENTUALLY = Fraction(1, 2)  # of a unit: how readers read the digest


@dataclass(frozen=True, slots=True)
class Counted:
    """What a stack has counted in a period."""

    reads: Mapping[str, int]  # by tier, of the front door
    busy_s: int  # seconds with a read
    messages: int  # of readers to the scheduler, each an event
    gathers: bool  # whether readers gather what they report: under policies by use
    calls: int  # of all functions but the proxy
    steps: Steps


def counted_usage(counted: Counted, setup: Setup, period_us: int) -> Usage:
    """Return what durations and requests, which are billed by themselves, leave out.

    As in `live_usage`, with what was counted in place of what was simulated; where it was not, the most that it can be.
    """
    control = control_usage(counted.steps)
    metrics = metrics_usage(counted.steps, counted.reads.values(), period_us)
    reads = sum(counted.reads.values())
    logged_bytes = LOG_BYTES * counted.calls + READ_LOG_BYTES * reads
    return add(
        (
            _table_and_events(counted, setup, reads),
            Usage(dynamodb_writes=control.dynamodb_writes, dynamodb_reads=control.dynamodb_reads),
            Usage(transitions=control.transitions, metric_h=metrics.metric_h),
            Usage(logs_gb=Fraction(logged_bytes, BYTES_PER_GB)),
        )
    )


def _table_and_events(counted: Counted, setup: Setup, reads: int) -> Usage:
    """Return what reports take of the table, and reading the digest: once in each second with a read.

    A report of what was gathered reads the rows of node and use, writes that of the use, and reads a row for each read
    at half the price; with cache functions each read from S3 is learned in its key's row.
    """
    digest = _EVENTUALLY * min(counted.busy_s, reads)
    if not counted.gathers:
        return Usage(events_64kb=counted.messages, dynamodb_writes=counted.messages, dynamodb_reads=digest)
    learned = counted.reads.get("s3", 0) if setup.relay != "none" else 0
    return Usage(
        events_64kb=counted.messages,
        dynamodb_writes=counted.messages + learned,
        dynamodb_reads=digest + 2 * counted.messages + -(-reads // 2) + learned,
    )
