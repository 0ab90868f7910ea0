"""The compiled engine's books: counts in one integer array, spans in another; compiled, called by both policies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.compiled import uncounted

Integers = NDArray[np.int64]

FOREVER_US = 1 << 62

# Places in the array of counts.
N_LAMBDA, N_REDIS, LAMBDA_MS, INVOCATIONS, COLD_STARTS, REDIS_S, REDIS_STARTS = 0, 1, 2, 3, 4, 5, 6
LAMBDA_US, REDIS_US, END_US, CHECKS, SPANS, SEEDS = 7, 8, 9, 10, 11, 12
COUNTS = 13

# Places in the array of parameters: the timings first, then the policy's.
WARM_US, COLD_US, STAYS_WARM_US, BOOT_US, STOP_US, LEAST_BILL_US, KEEP_RUNNING_US = 0, 1, 2, 3, 4, 5, 6
TICK_US, ELEMENTS, THRESHOLD_US, REDIS_THRESHOLD, UTILIZATION_US, CHECK_US = 7, 8, 9, 10, 11, 12
BOOT_REQUESTS, BOOT_WITHIN_US, USES_LAMBDA, INVOKE_REQUESTS, GAP_US, IDLE_US, LEAST_US = 7, 8, 9, 10, 11, 12, 13
PARAMETERS = 14

# Columns of a span: who, the first request it served and the one after its last, from and to.
LAMBDA_SPAN, REDIS_SPAN = 0, 1
SPAN_COLUMNS = 5


@uncounted
def invoke(at_us: int, last_end_us: int, p: Integers, counts: Integers) -> int:
    """Note an invocation and return when it is ready [us]; `last_end_us` is below 0 before the first."""
    counts[INVOCATIONS] += 1
    if last_end_us < 0 or at_us - last_end_us > p[STAYS_WARM_US]:
        counts[COLD_STARTS] += 1
        return at_us + p[COLD_US]  # type: ignore[no-any-return]
    return at_us + p[WARM_US]  # type: ignore[no-any-return]


@uncounted
def end_lambda(
    ready_us: int, end_us: int, horizon_us: int, first: int, after: int, counts: Integers, spans: Integers
) -> None:
    """Bill an invocation up to its end or the horizon; it served the requests `first` to `after` (exclusive)."""
    counts[N_LAMBDA] += after - first
    if end_us <= horizon_us:
        counts[END_US] = max(counts[END_US], end_us)
    else:
        end_us = horizon_us
    if end_us >= ready_us:
        counts[LAMBDA_US] += end_us - ready_us
        counts[LAMBDA_MS] += (end_us - ready_us + 999) // 1_000
        _note(LAMBDA_SPAN, first, after, ready_us, end_us, counts, spans)


@uncounted
def end_redis(
    since_us: int, stop_us: int, first: int, after: int, p: Integers, counts: Integers, spans: Integers
) -> None:
    """Bill a run of Redis; it served the requests `first` to `after` (exclusive)."""
    counts[N_REDIS] += after - first
    counts[REDIS_US] += stop_us - since_us
    counts[REDIS_S] += (max(stop_us - since_us, p[LEAST_BILL_US]) + 999_999) // 1_000_000
    counts[END_US] = max(counts[END_US], stop_us)
    _note(REDIS_SPAN, first, after, since_us, stop_us, counts, spans)


@uncounted
def bridge(
    t: Integers, i: int, first: int, ready_us: int, end_us: int, since_us: int, horizon_us: int,
    counts: Integers, spans: Integers
) -> int:  # fmt: skip
    """Serve one key from its cache function while its node boots; return the next request."""
    n = len(t)
    if first == i:  # no request was served before the boot: some may still come too early
        while i < n and t[i] < min(ready_us, since_us):
            i += 1
        first = i
    while i < n and t[i] < end_us:
        i += 1
    end_lambda(ready_us, end_us, horizon_us, first, i, counts, spans)
    return i


@uncounted
def boot(at_us: int, p: Integers, counts: Integers) -> int:
    """Note a boot and the object put into its node; return when the node runs [us]."""
    counts[REDIS_STARTS] += 1
    counts[SEEDS] += 1
    return at_us + p[BOOT_US]  # type: ignore[no-any-return]


@uncounted
def _note(who: int, first: int, after: int, from_us: int, to_us: int, counts: Integers, spans: Integers) -> None:
    row = counts[SPANS]
    counts[SPANS] += 1
    if row < len(spans):
        spans[row, 0], spans[row, 1], spans[row, 2], spans[row, 3], spans[row, 4] = who, first, after, from_us, to_us
