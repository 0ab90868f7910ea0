"""The kernel of the exact optimum, a compiled dynamic program in near-linear time.

At node i, the first i requests have been served. Each node has three costs, each with a minimum number of misses:

* `least`: Redis may be in any state.
* `free`: a Redis run may start with request i, because there was no run yet or the last run has cooled down.
* `ended`: a Redis run ends with request i-1.

A Lambda run of the minimum length serves all requests in that time, since serving fewer requests never helps. A longer
Lambda run pays for each further gap, and one running minimum covers all possible starts. It may pay to end a Redis run
before the minimum billed duration, because the cool-down begins at the run's end. A sliding-window minimum covers the
possible starts of such runs.
"""

from __future__ import annotations

import numpy as np

from burstcache_sim.engine.compiled import compiled
from burstcache_sim.optimum.bridge import (
    INFINITE,
    Integers,
    Prices,
    bridge,
    least_run_ends,
    lower,
    summed_floors,
)  # fmt: skip


@compiled
def optimum(t: Integers, p: Prices) -> tuple[int, int]:
    """Return the minimum cost of serving the arrivals `t` (from 0), and the minimum number of misses at that cost."""
    nowhere = np.empty((0, 0), np.int64)
    return optimum_and_nodes(t, p, nowhere)


@compiled
def optimum_and_nodes(t: Integers, p: Prices, nodes: Integers) -> tuple[int, int]:
    """Return the result of `optimum`, and fill the nodes for a backtrace of the plan.

    Args:
        t: The arrivals [us].
        p: The prices.
        nodes: Four rows to fill, with one column per node: `free`, its misses, `ended`, its misses. An array without
        rows stays empty.
    """
    n = len(t)
    is_kept = len(nodes) > 0
    ends, sums = least_run_ends(t, p), summed_floors(t, p)
    near, near_misses = np.full(n + 2, INFINITE, np.int64), np.zeros(n + 2, np.int64)
    going, going_misses = np.full(n + 2, INFINITE, np.int64), np.zeros(n + 2, np.int64)
    least, least_misses = np.full(n + 1, INFINITE, np.int64), np.zeros(n + 1, np.int64)
    free, free_misses = np.full(n + 1, INFINITE, np.int64), np.zeros(n + 1, np.int64)
    lasting, lasting_misses = np.full(n + 2, INFINITE, np.int64), np.zeros(n + 2, np.int64)
    # Running minima: Lambda beyond its minimum length (from `least`), Redis beyond its minimum length.
    beyond, beyond_misses = np.full(2, INFINITE, np.int64), np.zeros(2, np.int64)
    starts = np.empty(n + 1, np.int64)  # Redis starts that may still be the best within the minimum length
    head = tail = 0
    short = 0  # earliest request from which a minimum Lambda run reaches request i-1
    brief = 0  # earliest request from which a minimum Redis run reaches request i-1
    cooled = 0  # the first request after the cool-down of a Redis run that ends with request i-1
    lambda_least = p.lambda_start + p.lambda_rate * p.least_lambda_us
    redis_least = p.redis_start + p.redis_rate * (p.least_redis_us - p.free_redis_us)
    least[0] = free[0] = 0
    for i in range(n + 1):
        if i > 0:
            last_us = t[i - 1]
            gap_us = last_us - t[i - 2] if i > 1 else 0
            for rate, place in ((p.lambda_rate, 0), (p.redis_rate, 1)):
                if beyond[place] < INFINITE:
                    beyond[place] += rate * gap_us
            while last_us - t[short] > p.least_lambda_us:
                cost = least[short] + p.lambda_start + p.lambda_rate * (last_us - t[short])
                lower(beyond, beyond_misses, 0, cost, least_misses[short])
                short += 1
            while last_us - t[brief] > p.least_redis_us:
                if free[brief] < INFINITE:
                    run_us = last_us - t[brief] - p.free_redis_us
                    cost = free[brief] + p.redis_start + p.redis_rate * run_us
                    lower(beyond, beyond_misses, 1, cost, free_misses[brief])
                brief += 1
            while head < tail and starts[head] < brief:
                head += 1
            lower(least, least_misses, i, beyond[0], beyond_misses[0])
            lower(least, least_misses, i, least[short] + lambda_least, least_misses[short])
            if p.miss < INFINITE:
                lower(least, least_misses, i, least[i - 1] + p.miss, least_misses[i - 1] + 1)
            ended, ended_misses = beyond[1], beyond_misses[1]
            if head < tail:
                cost, missed = free[starts[head]] + redis_least, free_misses[starts[head]]
                if cost < ended or (cost == ended and missed < ended_misses):
                    ended, ended_misses = cost, missed
            if is_kept:
                nodes[2, i], nodes[3, i] = ended, ended_misses
            is_worth_following = ended < least[i] or (ended == least[i] and ended_misses <= least_misses[i])
            lower(least, least_misses, i, ended, ended_misses)
            while cooled < n and (cooled < i or t[cooled] < last_us + p.cool_down_us):
                cooled += 1
            if ended < INFINITE and is_worth_following and cooled < n:
                if cooled == i:
                    lower(free, free_misses, i, ended, ended_misses)
                else:
                    bridge(
                        t, p, i, cooled, ended, ended_misses, ends, sums, near, near_misses,
                        going, going_misses, free, free_misses, lasting, lasting_misses,
                    )  # fmt: skip
        if i == n:
            break
        lower(free, free_misses, i, lasting[i], lasting_misses[i])
        if lasting[i] < INFINITE:
            lower(lasting, lasting_misses, i + 1, lasting[i] + p.lambda_rate * (t[i] - t[i - 1]), lasting_misses[i])
        if free[i] == INFINITE:
            continue
        after = ends[i]
        if after < n:
            lower(free, free_misses, after, free[i] + lambda_least, free_misses[i])
            cost = free[i] + p.lambda_start + p.lambda_rate * (t[after] - t[i])
            lower(lasting, lasting_misses, after + 1, cost, free_misses[i])
        if p.miss < INFINITE:
            lower(free, free_misses, i + 1, free[i] + p.miss, free_misses[i] + 1)
        while tail > head and (
            free[starts[tail - 1]] > free[i]
            or (free[starts[tail - 1]] == free[i] and free_misses[starts[tail - 1]] >= free_misses[i])
        ):
            tail -= 1
        starts[tail] = i
        tail += 1
    if is_kept:
        nodes[0], nodes[1] = free, free_misses
        nodes[2, 0] = INFINITE
    return least[n], least_misses[n]
