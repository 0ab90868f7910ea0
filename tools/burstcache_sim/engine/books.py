"""Books of the compiled engines: one record of counts, and an array of spans."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.engine.compiled import uncounted
from burstcache_sim.world.timings import SERVES_ALONE_US

Integers = NDArray[np.int64]
Record = Any  # an element of a structured array, with fields that numba reads as attributes
Records = NDArray[Any]

FOREVER_US = 1 << 62
MAX_TIME_US = 10**18  # 31,000 years, so that sums of a few such times fit 64 bits

COUNTS = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("n_lambda", "n_redis", "lambda_ms", "invocations", "handovers", "cold_starts"),
            *("redis_s", "redis_starts", "seeds", "fills", "loads", "told", "told_batches", "seen_writes"),
            *("lambda_us", "redis_us", "end_us", "checks", "spans"),
        )
    ],
    align=True,
)

# Columns of a span: tier, first served request, request after the last served request, start [us], end [us].
LAMBDA_SPAN, REDIS_SPAN = 0, 1
SPAN_COLUMNS = 5


class TimingsRow(NamedTuple):
    """`world.timings.Timings` as a row, with the same fields."""

    warm_us: int
    cold_us: int
    stays_warm_us: int
    boot_us: int
    stop_us: int
    least_bill_us: int


def validate(row: NamedTuple) -> None:
    """Raise `InvalidSettingError` if a value of a row is negative or too large to be added to a time."""
    for value in row:
        if not 0 <= value <= MAX_TIME_US:
            raise InvalidSettingError(f"{row}: expected values from 0 to {MAX_TIME_US}")


@uncounted
def invoke(at_us: int, last_end_us: int, timings: TimingsRow, counts: Record) -> int:
    """Record an invocation and return its ready time [us]. `last_end_us` is below 0 before the first invocation."""
    counts.invocations += 1
    if last_end_us < 0 or at_us - last_end_us > timings.stays_warm_us:
        counts.cold_starts += 1
        return at_us + timings.cold_us
    return at_us + timings.warm_us


@uncounted
def end_lambda(
    ready_us: int, end_us: int, horizon_us: int, first: int, after: int, counts: Record, spans: Integers
) -> None:
    """Bill an invocation that served requests `first` to `after` (exclusive), up to its end or the horizon."""
    counts.n_lambda += after - first
    if end_us <= horizon_us:
        counts.end_us = max(counts.end_us, end_us)
    else:
        end_us = horizon_us
    if end_us >= ready_us:
        counts.lambda_us += end_us - ready_us
        counts.lambda_ms += (end_us - ready_us + 999) // 1_000
        counts.handovers += max(0, (end_us - ready_us - 1) // SERVES_ALONE_US)
        _note(LAMBDA_SPAN, first, after, ready_us, end_us, counts, spans)


@uncounted
def end_redis(
    since_us: int, stop_us: int, first: int, after: int, timings: TimingsRow, counts: Record, spans: Integers
) -> None:
    """Bill a run of Redis that served requests `first` to `after` (exclusive)."""
    counts.n_redis += after - first
    counts.redis_us += stop_us - since_us
    counts.redis_s += (max(stop_us - since_us, timings.least_bill_us) + 999_999) // 1_000_000
    counts.end_us = max(counts.end_us, stop_us)
    _note(REDIS_SPAN, first, after, since_us, stop_us, counts, spans)


@uncounted
def bridge(
    t: Integers, i: int, first: int, ready_us: int, end_us: int, since_us: int, horizon_us: int,
    counts: Record, spans: Integers
) -> int:  # fmt: skip
    """Serve a key from its cache function while its node boots, and return the index of the next request."""
    n = len(t)
    if first == i:  # no request was served before the boot, and more requests may precede readiness
        while i < n and t[i] < min(ready_us, since_us):
            i += 1
        first = i
    while i < n and t[i] < end_us:
        i += 1
    end_lambda(ready_us, end_us, horizon_us, first, i, counts, spans)
    return i


@uncounted
def boot(at_us: int, timings: TimingsRow, counts: Record) -> int:
    """Record a boot and the seeding of the key's object, and return the node's ready time [us]."""
    counts.redis_starts += 1
    counts.seeds += 1
    return at_us + timings.boot_us


@uncounted
def _note(who: int, first: int, after: int, from_us: int, to_us: int, counts: Record, spans: Integers) -> None:
    row = counts.spans
    counts.spans += 1
    if row < len(spans):
        spans[row, 0], spans[row, 1], spans[row, 2], spans[row, 3], spans[row, 4] = who, first, after, from_us, to_us
