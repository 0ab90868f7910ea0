"""From the end of one Redis run to the start of the next, through the cool-down: the hard part of the optimum.

The next run may start only `cool_down_us` after the end of the last one, so what a plan costs between depends on when
that end was. Every end is followed over its own cool-down only. Three rules, each of which exchanges a plan for another
that costs no more, keep that short; c is what serving without Redis has cost since the end b of the run:

A. If the next run starts at a and c + start >= rate*(a-b), going on with Redis from b to a costs no more.
B. If c >= rate*(x-b), where x is a later request so served and the next run starts a cool-down after x or later, ending
   the run at x instead of b costs no more. (In the middle of a Lambda run one more start of Lambda is in the way.)
   Hence after such an x the next run starts earlier than that: if no request comes in time, the plan ends here, and
   else rule A needs less.
C. Whatever the plan, the requests up to the end of the cool-down cost at least the sum of their `floors`: half the
   Lambda rate times the gap after the request (at most the least Lambda run), or one miss if that is less. A Lambda
   run of length l pays for l or the least run, and its floors add up to half of both together at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.compiled import compiled

Integers = NDArray[np.int64]

INFINITE = 1 << 62


class Prices(NamedTuple):
    """What serving costs [cost units, per microsecond where it is a rate], and the rules that go with it."""

    lambda_rate: int
    lambda_start: int
    least_lambda_us: int
    redis_rate: int
    redis_start: int
    least_redis_us: int
    free_redis_us: int  # of a Redis run, served by the cache function that bridges its boot
    cool_down_us: int  # from the end of a Redis run to the start of the next
    miss: int  # INFINITE: not allowed


@compiled
def lower(costs: Integers, misses: Integers, i: int, cost: int, missed: int) -> None:
    """Keep the lesser of the stored and the offered cost, and of equal ones that with fewer misses."""
    if cost < costs[i] or (cost == costs[i] and missed < misses[i]):
        costs[i], misses[i] = cost, missed


@compiled
def least_run_ends(t: Integers, p: Prices) -> Integers:
    """Return for each request the first one that a least Lambda run from it no longer serves."""
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
    """Return the sums of the floors of the requests before each (rule C) [cost units]."""
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
    """Follow the plans from a Redis run that ended with the request before `source` to the end of its cool-down.

    Args:
        t: The arrivals [us].
        p: The prices.
        source: The first request after the run.
        end: The first request after the cool-down; there is one.
        cost: What all before `source` costs [cost units]; `missed`: its misses.
        ends: From `least_run_ends`.
        sums: From `summed_floors`.
        near: Scratch, all INFINITE and left so: like `free` within the cool-down, counted from `source`.
        near_misses: Scratch.
        going: Scratch, all INFINITE and left so: like `lasting` within the cool-down.
        going_misses: Scratch.
        free: Per request what all before it costs if a Redis run may start at it; lowered here from `end` on.
        free_misses: The misses of `free`.
        lasting: The same while a Lambda run beyond its least length still serves the request before.
        lasting_misses: The misses of `lasting`.
    """
    b_us = t[source - 1]
    start = p.redis_start - p.redis_rate * p.free_redis_us
    least = p.lambda_start + p.lambda_rate * p.least_lambda_us
    cool_down = p.redis_rate * p.cool_down_us
    limit = cool_down + p.redis_rate * p.least_lambda_us + max(cool_down - start, least)
    begun = p.lambda_rate // 2 * p.least_lambda_us  # what a run in progress may have paid of the floors to come
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
