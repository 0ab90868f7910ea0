"""The bridge from the end of one Redis run to the start of the next, through the cool-down.

The next run may not start until `cool_down_us` after the end of the previous run. The cost between the two runs
therefore depends on that end. The program follows each end only over its own cool-down. Three rules prune this search.
Each rule replaces a plan with another plan that costs no more. Let b be the end of the previous run, and c the cost of
serving without Redis since b.

A. If the next run starts at a and c + start >= rate*(a-b), continuing Redis from b to a costs no more.
B. Let x be a later request served without Redis, and let the next run start at least a cool-down after x. If
   c >= rate*(x-b), ending the run at x instead of b costs no more. (In the middle of a Lambda run, this takes one more
   Lambda start.) Hence the next run starts less than a cool-down after such an x. If no request arrives in this time,
   the branch ends. Otherwise, a lower cost already satisfies rule A.
C. In any plan, the requests up to the end of the cool-down cost at least the sum of their floors. A request's floor is
   half the Lambda rate times the following gap (at most the minimum Lambda run), or the price of a miss if that is
   less. A Lambda run of length l is billed for l or the minimum run, whichever is longer. The floors in a Lambda run
   add up to at most half the sum of l and the minimum run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.compiled import compiled

Integers = NDArray[np.int64]

INFINITE = 1 << 62


class Prices(NamedTuple):
    """Prices of serving [cost units, rates per microsecond], and the durations that apply to Lambda and Redis runs."""

    lambda_rate: int
    lambda_start: int
    least_lambda_us: int
    redis_rate: int
    redis_start: int
    least_redis_us: int
    free_redis_us: int  # the part of a Redis run in which a cache function bridges the boot
    cool_down_us: int  # minimum time from the end of a Redis run to the start of the next
    miss: int  # INFINITE if misses are not allowed


@compiled
def lower(costs: Integers, misses: Integers, i: int, cost: int, missed: int) -> None:
    """Replace the stored cost if the offered one is lower, or equal with fewer misses."""
    if cost < costs[i] or (cost == costs[i] and missed < misses[i]):
        costs[i], misses[i] = cost, missed


@compiled
def least_run_ends(t: Integers, p: Prices) -> Integers:
    """Return, for each request, the first request after a minimum Lambda run that starts with this request."""
    n = len(t)
    ends = np.empty(n, np.int64)
    end = 0
    for i in range(n):
        while end < n and t[end] <= t[i] + p.least_lambda_us:
            end += 1
        ends[i] = end
    return ends


@compiled
def summed_floors(t: Integers, p: Prices) -> Integers:
    """Return, for each request, the sum of the floors of all earlier requests (rule C) [cost units]."""
    n = len(t)
    sums = np.zeros(n + 1, np.int64)
    for i in range(n):
        gap_us = p.least_lambda_us
        if i + 1 < n:
            gap_us = min(gap_us, t[i + 1] - t[i])
        sums[i + 1] = sums[i] + min(p.lambda_rate // 2 * gap_us, p.miss)
    return sums


@compiled
def bridge(
    t: Integers, p: Prices, source: int, end: int, cost: int, missed: int,
    ends: Integers, sums: Integers, near: Integers, near_misses: Integers,
    going: Integers, going_misses: Integers,
    free: Integers, free_misses: Integers, lasting: Integers, lasting_misses: Integers,
) -> None:  # fmt: skip
    """Follow the plans from a Redis run, whose last request precedes `source`, to the end of the run's cool-down.

    Args:
        t: The arrivals [us].
        p: The prices.
        source: The first request after the run.
        end: The first request after the cool-down, which must exist.
        cost: Cost of all requests before `source` [cost units].
        missed: Misses among these requests.
        ends: From `least_run_ends`.
        sums: From `summed_floors`.
        near: Scratch array like `free`, but within the cool-down and without `cost`. INFINITE before and after a call.
        near_misses: Scratch array.
        going: Scratch array like `lasting`, but within the cool-down and without `cost`. INFINITE before and after a
            call.
        going_misses: Scratch array.
        free: Per request, the cost of all earlier requests if a Redis run may start with this request. This call lowers
            the costs from `end` on.
        free_misses: The misses of `free`.
        lasting: Like `free`, but the previous request is served by a Lambda run beyond the minimum length.
        lasting_misses: The misses of `lasting`.
    """
    b_us = t[source - 1]
    start = p.redis_start - p.redis_rate * p.free_redis_us
    least = p.lambda_start + p.lambda_rate * p.least_lambda_us
    cool_down = p.redis_rate * p.cool_down_us
    limit = cool_down + p.redis_rate * p.least_lambda_us + max(cool_down - start, least)
    begun = p.lambda_rate // 2 * p.least_lambda_us  # later floors that a Lambda run in progress may have paid
    near[source], near_misses[source] = 0, 0
    reach = source
    i = source
    while i < end and i <= reach:
        spent, m = near[i], near_misses[i]
        run, run_m = going[i], going_misses[i]
        near[i] = going[i] = INFINITE
        lower_bound = sums[end] - sums[i]
        redis = p.redis_rate * (t[i - 1] - b_us)
        useful = redis + cool_down - start if t[end] < t[i - 1] + p.cool_down_us else 0
        run_bound = run + lower_bound - begun
        if run < INFINITE and run_bound < limit and (run < redis + least or run_bound < useful):
            reach = max(reach, i + 1)
            going_on = run + p.lambda_rate * (t[i] - t[i - 1])
            if i + 1 < end:
                lower(going, going_misses, i + 1, going_on, run_m)
            elif i + 1 < len(t):
                lower(lasting, lasting_misses, i + 1, cost + going_on, missed + run_m)
            if run < spent or (run == spent and run_m < m):
                spent, m = run, run_m
        bound = spent + lower_bound
        if spent < INFINITE and bound < limit and (i == source or spent < redis or bound < useful):
            after = ends[i]
            reach = max(reach, after + 1)
            if after < end:
                lower(near, near_misses, after, spent + least, m)
            elif after < len(t):
                lower(free, free_misses, after, cost + spent + least, missed + m)
            if after + 1 <= len(t):
                longer = spent + p.lambda_start + p.lambda_rate * (t[after] - t[i])
                if after + 1 < end:
                    lower(going, going_misses, after + 1, longer, m)
                elif after + 1 < len(t):
                    lower(lasting, lasting_misses, after + 1, cost + longer, missed + m)
            if p.miss < INFINITE:
                if i + 1 < end:
                    lower(near, near_misses, i + 1, spent + p.miss, m + 1)
                else:
                    lower(free, free_misses, i + 1, cost + spent + p.miss, missed + m + 1)
        i += 1
