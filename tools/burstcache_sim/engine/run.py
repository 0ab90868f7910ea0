"""Runs of the compiled simulator: the readable simulator's results at tens of millions of requests per second.

A single key is replayed by its policy's own loop. Keys that share nodes are replayed by one engine for all policies.
The code is compiled at first use and cached on disk (`engine.compiled`). Importing this module loads neither numpy nor
numba.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.policies.policy import Policy
from burstcache_sim.world.express import copy_rules
from burstcache_sim.world.result import NO_EXPRESS, ExpressUse, GuestUse, RunResult, Tier
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    from burstcache_sim.engine.arrays import Keys, Letters
    from burstcache_sim.engine.books import Integers, Records

Replay = Callable[[NamedTuple, bool], "RunResult"]  # arguments: a policy's row, and whether to return details
Preparation = Callable[[Scenario], Replay]  # does the work that all policies share for a scenario

_TIERS: tuple[Tier, ...] = ("L", "R")
_USUAL_SPANS = 1 << 12


def run_compiled(
    policies: Sequence[Policy], scenario: Scenario, *, details: bool = True, workers: int = 1
) -> list[RunResult]:
    """Replay a scenario's requests under each of several policies. Every policy must have a compiled engine.

    Args:
        policies: Policies of any kind, in any order.
        scenario: Requests and nodes, with times from 0 to 1e18 us and a name for each key.
        details: Whether results include the tier of each request and the spans. Results never include a log.
        workers: Number of threads, at least 1. The loops release the GIL.

    Returns:
        One result per policy, in the same order, equal to the result of `world.simulate`.

    Raises:
        InvalidSettingError: The arrivals are unsorted, a time is too large for 64-bit sums, a key has no name, or the
            scenario has slices or interruptions and a policy has no read-through entries.
    """
    if workers < 1:
        raise InvalidSettingError(f"workers {workers}: expected at least 1")
    for policy in policies:
        scenario.check_policy(policy)
    rows = [_row(policy, len(scenario.trace)) for policy in policies]
    preparations = [_preparation(row, scenario) for row in rows]
    replays = {prepare: prepare(scenario) for prepare in set(preparations)}

    def part(worker: int) -> list[RunResult]:
        own = slice(worker, None, workers)
        return [replays[prepare](row, details) for prepare, row in zip(preparations[own], rows[own], strict=True)]

    if workers == 1:
        return part(0)
    with ThreadPoolExecutor(workers) as threads:
        parts = list(threads.map(part, range(workers)))
    return [parts[i % workers][i // workers] for i in range(len(rows))]


def _preparation(row: NamedTuple, scenario: Scenario) -> Preparation:
    """Return the preparation for a policy: its engine's own, or else the usual one."""
    from burstcache_sim.engine.hooks import engine_of

    engine = engine_of(type(row))
    usual = _one_key if scenario.is_one_key and hasattr(engine, "one_key") else _shared
    own: Preparation = getattr(engine, "prepare", usual)
    return own


def _one_key(scenario: Scenario) -> Replay:
    from burstcache_sim.engine.arrays import checked_arrivals, new_spans, new_totals, timings_row
    from burstcache_sim.engine.hooks import engine_of

    t, horizon_us = checked_arrivals(scenario)
    timings, zero, no_spans = timings_row(scenario), new_totals(t), new_spans(0)

    def replay(row: NamedTuple, details: bool) -> RunResult:
        def run(spans: Integers) -> Records:
            totals = zero.copy()
            engine_of(type(row)).one_key(t, horizon_us, timings, row, totals, spans)
            return totals

        if not details:
            return _result(len(t), run(no_spans), scenario.until_us)
        totals, spans = _with_spans(run)
        return _result(len(t), totals, scenario.until_us, spans, _tiers_of(len(t), spans))

    return replay


def _shared(scenario: Scenario) -> Replay:
    from burstcache_sim.engine import arrays, shared
    from burstcache_sim.engine.hooks import engine_of
    from burstcache_sim.engine.shared_world import new_world

    timings = arrays.timings_row(scenario)
    t, horizon_us = arrays.checked_arrivals(scenario)
    key_ids, homes = arrays.keys_and_homes(scenario, len(t))
    sizes_bytes, capacity_bytes = arrays.sizes_and_capacity(scenario, len(t))
    counted_us, counted_ids, counted_bytes = t, key_ids, arrays.all_sizes(scenario, len(t))
    if len(sizes_bytes):
        fits = sizes_bytes <= capacity_bytes
        counted_us, counted_ids, counted_bytes = t[fits], key_ids[fits], sizes_bytes[fits]
    begins, ordered = shared.order_by_key(counted_us, counted_ids, len(homes))
    _, ordered_bytes = shared.order_by_key(counted_bytes, counted_ids, len(homes))

    interruptions = scenario.interruptions_at()

    def run(row: NamedTuple, spans: Integers, tiers: Letters) -> Records:
        totals = arrays.new_totals(t)
        world = new_world(
            begins,
            ordered,
            homes,
            scenario.nodes,
            capacity_bytes,
            horizon_us,
            timings,
            totals,
            spans,
            scenario.always_on,
            interruptions,
        )
        engine = engine_of(type(row))
        policy: NamedTuple = row
        if hasattr(engine, "state_of"):
            policy = engine.state_of(row, ordered_bytes, len(homes), scenario.nodes, scenario.slices)
        shared.replay(world, policy, t, key_ids, sizes_bytes, tiers)
        return totals

    return in_detail(run, scenario, t, key_ids, len(homes))


def in_detail(
    run: Callable[[NamedTuple, Integers, Letters], Records], scenario: Scenario, t: Integers, key_ids: Keys, keys: int
) -> Replay:
    """Return a replay that adds details and copies in S3 Express to the totals of an engine's run.

    Args:
        run: Callback that replays a policy's row, writes spans and tier letters into the given arrays, and returns
            totals.
        scenario: Requests and nodes.
        t: Arrival time of each request, none after the horizon [us].
        key_ids: Key of each request.
        keys: Number of keys.
    """
    import numpy as np

    from burstcache_sim.engine.arrays import new_spans

    n, until_us, copies = len(t), scenario.until_us, _copies(scenario, t, key_ids, keys)

    def replay(row: NamedTuple, details: bool) -> RunResult:
        tiers, spans = np.zeros(n if details or copies is not None else 0, np.uint8), None
        if details:
            totals, spans = _with_spans(lambda spans: run(row, spans, tiers))
        else:
            totals = run(row, new_spans(0), tiers)
        express = NO_EXPRESS if copies is None else copies(tiers)
        letters = tiers.tobytes().decode("ascii") if details else ""
        n_express = int(np.count_nonzero(tiers == ord("X")))
        return _result(n, totals, until_us, spans, letters, express, n_express)

    return replay


def _with_spans(run: Callable[[Integers], Records]) -> tuple[Records, Integers]:
    """Return the totals and spans of a run. If the spans do not fit the usual array, run again with a larger array."""
    from burstcache_sim.engine.arrays import new_spans

    totals = run(spans := new_spans(_USUAL_SPANS))
    if (count := int(totals["spans"][0])) > len(spans):
        totals = run(spans := new_spans(count))
    return totals, spans[:count]


def _copies(scenario: Scenario, t: Integers, key_ids: Keys, keys: int) -> Callable[[Letters], ExpressUse] | None:
    """Return the pass that moves requests from S3 to copies, or None without S3 Express."""
    if scenario.express is None or scenario.trace.sizes_bytes is None:
        return None
    import numpy as np

    from burstcache_sim.engine import express

    sizes_bytes = scenario.trace.sizes_bytes[: len(t)].astype(np.int64)
    rules = copy_rules(scenario.express, sizes_bytes)
    return lambda tiers: express.serve(tiers, t, key_ids, sizes_bytes, rules, keys, scenario.until_us)


def _row(policy: Policy, n: int) -> NamedTuple:
    """Return a policy's row, validated by its engine for a trace of n requests."""
    from burstcache_sim.engine.hooks import engine_of

    row = policy.compiled()
    assert row is not None, f"{policy.name} has no compiled engine"
    engine_of(type(row)).validate(row, n)
    return row


def _result(
    n: int,
    totals: Records,
    until_us: int | None,
    spans: Integers | None = None,
    tiers: str = "",
    express: ExpressUse = NO_EXPRESS,
    n_express: int = 0,
) -> RunResult:
    """Build a result from counts and optional spans."""
    c = dict(zip(totals.dtype.names or (), totals.item(), strict=True))
    n_s3 = n - c["n_lambda"] - c["n_redis"] - n_express
    rows = [] if spans is None else spans.tolist()
    return RunResult(
        n=n,
        n_s3=n_s3,
        n_express=n_express,
        express=express,
        guests=GuestUse(c["fills"], c["loads"], c["told"], c["told_batches"], c["seen_writes"]),
        n_lambda=c["n_lambda"],
        n_redis=c["n_redis"],
        lambda_ms=c["lambda_ms"],
        invocations=c["invocations"],
        handovers=c["handovers"],
        cold_starts=c["cold_starts"],
        redis_s=c["redis_s"],
        redis_starts=c["redis_starts"],
        s3_requests=n_s3 + c["cold_starts"] + c["seeds"],
        lambda_us_exact=_unwrapped(c["lambda_us"], most=1_000 * c["lambda_ms"]),
        redis_us_exact=_unwrapped(c["redis_us"], most=1_000_000 * c["redis_s"]),
        end_us=c["end_us"] if until_us is None else until_us,
        checks=c["checks"],
        tiers=tiers,
        lambda_spans_us=tuple((row[3], row[4]) for row in rows if row[0] == 0),
        redis_spans_us=tuple((row[3], row[4]) for row in rows if row[0] == 1),
    )


def _unwrapped(sum_us: int, *, most: int) -> int:
    """Restore a sum of times that may have wrapped around at 64 bits [us].

    Args:
        sum_us: The sum modulo 2**64.
        most: The billed time, which is rounded up and exceeds the sum by less than 2**64.
    """
    return most - (most - sum_us) % 2**64


def _tiers_of(n: int, spans: Integers) -> str:
    """Return the tier of each request for one key. S3 serves all requests outside the spans."""
    pieces = []
    served = 0
    for who, first, after, _, _ in spans.tolist():
        if after > first:
            pieces += ["S" * (first - served), _TIERS[who] * (after - first)]
            served = after
    return "".join(chain(pieces, ["S" * (n - served)]))
