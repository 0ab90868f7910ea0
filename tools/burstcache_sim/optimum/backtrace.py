"""The backtrace of an optimal plan through the nodes of `optimum.kernel`, in linear time.

The plan is reconstructed from its end. A (possibly empty) stretch without Redis precedes each start of Redis and the
end of the trace. The stretch's cost is computed backwards, request by request. The stretch begins at a Redis run's end
or the trace's beginning, where this cost plus the cost up to there equals the node's exact cost. The start of the Redis
run is found in the same way. Each search ends where the next search begins, so that no request is visited more than
twice.
"""

from __future__ import annotations

import numpy as np

from burstcache_sim.engine.compiled import compiled
from burstcache_sim.optimum.bridge import (
    INFINITE,
    Integers,
    Prices,
    least_run_ends,
)  # fmt: skip

BY_S3, BY_LAMBDA, BY_REDIS = 0, 1, 2


@compiled
def backtrace(t: Integers, p: Prices, nodes: Integers, cost: int, misses: int) -> Integers:
    """Return the plan's pieces, last piece first. A piece has a kind (`BY_…`), a first request and a last request.

    Args:
        t: The arrivals, at least one [us].
        p: The prices.
        nodes: From `optimum_and_nodes`.
        cost: The optimum.
        misses: The minimum number of misses at that cost.
    """
    n = len(t)
    ends = least_run_ends(t, p)
    pieces = np.empty((n, 3), np.int64)
    count = 0
    after = np.empty(n + 1, np.int64)  # per request, the first later request outside the Lambda run (-1: a miss)
    spent, missed = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    end = n
    while end > 0:
        begin = _stretch(t, p, nodes, ends, end, cost, misses, after, spent, missed)
        count = _note_stretch(pieces, count, after, begin, end)
        if begin == 0:
            break
        start = _redis_start(t, p, nodes, begin)
        pieces[count, 0], pieces[count, 1], pieces[count, 2] = BY_REDIS, start, begin - 1
        count += 1
        end, cost, misses = start, nodes[0, start], nodes[1, start]
    return pieces[:count]


@compiled
def _stretch(
    t: Integers, p: Prices, nodes: Integers, ends: Integers, end: int, cost: int, misses: int,
    after: Integers, spent: Integers, missed: Integers,
) -> int:  # fmt: skip
    """Return the first request of the stretch without Redis before `end`, and fill `after` for the stretch.

    `cost` and `misses` cover all requests before `end`. If a Redis run starts at `end`, the stretch begins early
    enough for the previous Redis run to cool down. `spent` and `missed` are scratch arrays for the stretch's cost and
    misses from each request on.
    """
    n = len(t)
    spent[end] = missed[end] = 0
    longer, longer_misses, longer_end = INFINITE, 0, -1  # the best Lambda run beyond the minimum length
    seen = end + 1  # `longer` covers the runs that end before this request or before a later request
    least = p.lambda_start + p.lambda_rate * p.least_lambda_us
    for i in range(end, -1, -1):
        if i < end:
            reach = min(ends[i], end)
            spent[i], missed[i], after[i] = spent[reach] + least, missed[reach], reach
            while seen > ends[i] + 1:
                seen -= 1
                candidate = spent[seen] + p.lambda_rate * t[seen - 1]
                if candidate < longer or (candidate == longer and missed[seen] < longer_misses):
                    longer, longer_misses, longer_end = candidate, missed[seen], seen
            if longer_end >= 0:
                candidate = longer + p.lambda_start - p.lambda_rate * t[i]
                if candidate < spent[i] or (candidate == spent[i] and longer_misses < missed[i]):
                    spent[i], missed[i], after[i] = candidate, longer_misses, longer_end
            if p.miss < INFINITE:
                candidate = spent[i + 1] + p.miss
                if candidate < spent[i] or (candidate == spent[i] and missed[i + 1] + 1 < missed[i]):
                    spent[i], missed[i], after[i] = candidate, missed[i + 1] + 1, -1
        if i == 0:
            break
        is_cool = end == n or t[end] >= t[i - 1] + p.cool_down_us
        if is_cool and nodes[2, i] + spent[i] == cost and nodes[3, i] + missed[i] == misses:
            return i
    return 0


@compiled
def _note_stretch(pieces: Integers, count: int, after: Integers, begin: int, end: int) -> int:
    """Append a stretch's pieces, last piece first, and return the number of all pieces."""
    first = count
    i = begin
    while i < end:
        is_miss = after[i] < 0
        past = i + 1 if is_miss else after[i]
        pieces[count, 0], pieces[count, 1], pieces[count, 2] = BY_S3 if is_miss else BY_LAMBDA, i, past - 1
        count += 1
        i = past
    pieces[first:count] = pieces[first:count][::-1].copy()
    return count


@compiled
def _redis_start(t: Integers, p: Prices, nodes: Integers, after: int) -> int:
    """Return the first request of the Redis run that ends with the request before `after`."""
    for start in range(after - 1, -1, -1):
        run_us = max(p.least_redis_us, t[after - 1] - t[start]) - p.free_redis_us
        run = p.redis_start + p.redis_rate * run_us
        is_free = nodes[0, start] < INFINITE
        if is_free and nodes[0, start] + run == nodes[2, after] and nodes[1, start] == nodes[3, after]:
            return start
    return 0
