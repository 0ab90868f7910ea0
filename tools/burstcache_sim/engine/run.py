"""The compiled simulator: the readable one's results, tens of millions of requests a second.

One key runs through a loop of its policy's own, keys that share nodes through one engine for all policies. The code is
compiled at first use and kept in a cache folder (`engine.compiled`); importing this module loads neither numpy nor
numba.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.policies.policy import Policy
from burstcache_sim.world.express import copy_rules
from burstcache_sim.world.result import NO_EXPRESS, ExpressUse, GuestUse, RunResult, Tier
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.engine.books import Integers, Records, TimingsRow
    from burstcache_sim.engine.shared import Keys, Letters

    Replay = Callable[[NamedTuple, bool], RunResult]  # a policy's row, whether details are wanted

_TIERS: tuple[Tier, ...] = ("L", "R")
_USUAL_SPANS = 1 << 12


def run_compiled(
    policies: Sequence[Policy], scenario: Scenario, *, details: bool = True, workers: int = 1
) -> list[RunResult]:
    """Replay a scenario's requests under each of the policies, all of which have compiled engines.

    Args:
        policies: In any mixture.
        scenario: What they meet: times from 0 to 1e18 us, a name for each key.
        details: Whether the results have the tier per request and the spans. They have no log.
        workers: Threads, at least 1; the loops hold no interpreter lock.

    Returns:
        A result per policy, in their order: what `world.simulate` gives.

    Raises:
        InvalidSettingError: The arrivals are unsorted, a time is too large for 64-bit sums, a key has no name.
    """
    if workers < 1:
        raise InvalidSettingError(f"workers {workers}: expected at least 1")
    rows = [_row(policy, len(scenario.trace)) for policy in policies]
    makers = [_maker(row, scenario) for row in rows]
    replays = {maker: maker(scenario) for maker in set(makers)}

    def part(worker: int) -> list[RunResult]:
        mine = slice(worker, None, workers)
        return [replays[maker](row, details) for maker, row in zip(makers[mine], rows[mine], strict=True)]

    if workers == 1:
        return part(0)
    with ThreadPoolExecutor(workers) as threads:
        parts = list(threads.map(part, range(workers)))
    return [parts[i % workers][i // workers] for i in range(len(rows))]


def _maker(row: NamedTuple, scenario: Scenario) -> Callable[[Scenario], Replay]:
    from burstcache_sim.engine.hooks import engine_of

    if hasattr(engine_of(type(row)), "replay"):
        return _own
    has_loop = hasattr(engine_of(type(row)), "one_key")
    return _one_key if scenario.is_one_key and has_loop else _shared


def _one_key(scenario: Scenario) -> Replay:
    from burstcache_sim.engine.hooks import engine_of

    t, horizon_us = _checked(scenario.trace.arrivals_us, scenario.until_us)
    timings, nothing, no_spans = _timings(scenario), _totals(t), _spans(0)

    def replay(row: NamedTuple, details: bool) -> RunResult:
        def run(spans: Integers) -> Records:
            totals = nothing.copy()
            engine_of(type(row)).one_key(t, horizon_us, timings, row, totals, spans)
            return totals

        if not details:
            return _result(len(t), run(no_spans), scenario.until_us)
        totals, spans = _with_spans(run)
        return _result(len(t), totals, scenario.until_us, spans, _tiers_of(len(t), spans))

    return replay


def _shared(scenario: Scenario) -> Replay:
    from burstcache_sim.engine import shared
    from burstcache_sim.engine.hooks import engine_of
    from burstcache_sim.engine.shared_world import new_world

    timings = _timings(scenario)
    t, horizon_us = _checked(scenario.trace.arrivals_us, scenario.until_us)
    key_ids, homes = _keys(scenario, len(t))
    sizes_bytes, capacity_bytes = _sizes(scenario, len(t))
    counted_us, counted_ids, counted_bytes = t, key_ids, _all_sizes(scenario, len(t))
    if len(sizes_bytes):
        fits = sizes_bytes <= capacity_bytes
        counted_us, counted_ids, counted_bytes = t[fits], key_ids[fits], sizes_bytes[fits]
    begins, ordered = shared.order_by_key(counted_us, counted_ids, len(homes))
    _, ordered_bytes = shared.order_by_key(counted_bytes, counted_ids, len(homes))

    def run(row: NamedTuple, spans: Integers, tiers: Letters) -> Records:
        totals = _totals(t)
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
        )
        engine = engine_of(type(row))
        policy = engine.state_of(row, ordered_bytes, len(homes), scenario.nodes) if hasattr(engine, "state_of") else row
        shared.replay(world, policy, t, key_ids, sizes_bytes, tiers)
        return totals

    return _in_detail(run, scenario, t, key_ids, len(homes))


def _own(scenario: Scenario) -> Replay:
    """Let an engine that needs no other replay one key and many."""
    from burstcache_sim.engine.hooks import engine_of

    timings = _timings(scenario)
    t, horizon_us = _checked(scenario.trace.arrivals_us, scenario.until_us)
    all_ids, homes = _keys(scenario, len(t))
    key_ids = all_ids[:0] if scenario.is_one_key else all_ids
    sizes_bytes, capacity_bytes = _sizes(scenario, len(t))

    def run(row: NamedTuple, spans: Integers, tiers: Letters) -> Records:
        engine, totals = engine_of(type(row)), _totals(t)
        world = engine.new_world(row, homes, scenario.nodes, capacity_bytes, horizon_us, timings, totals, spans)
        engine.replay(world, t, key_ids, sizes_bytes, tiers)
        noted = spans[: totals["spans"][0]]
        noted[:] = engine.in_order(noted)
        return totals

    return _in_detail(run, scenario, t, all_ids, len(homes))


def _in_detail(
    run: Callable[[NamedTuple, Integers, Letters], Records], scenario: Scenario, t: Integers, key_ids: Keys, keys: int
) -> Replay:
    """Return a run that has details if they are wanted."""
    import numpy as np

    n, until_us, copies = len(t), scenario.until_us, _copies(scenario, t, key_ids, keys)

    def replay(row: NamedTuple, details: bool) -> RunResult:
        tiers, spans = np.zeros(n if details or copies is not None else 0, np.uint8), None
        if details:
            totals, spans = _with_spans(lambda spans: run(row, spans, tiers))
        else:
            totals = run(row, _spans(0), tiers)
        express = NO_EXPRESS if copies is None else copies(tiers)
        letters = tiers.tobytes().decode("ascii") if details else ""
        n_express = int(np.count_nonzero(tiers == ord("X")))
        return _result(n, totals, until_us, spans, letters, express, n_express)

    return replay


def _with_spans(run: Callable[[Integers], Records]) -> tuple[Records, Integers]:
    """Return the totals of a run and its spans; it runs again if they are more than usual."""
    totals = run(spans := _spans(_USUAL_SPANS))
    if (count := int(totals["spans"][0])) > len(spans):
        totals = run(spans := _spans(count))
    return totals, spans[:count]


def _copies(scenario: Scenario, t: Integers, key_ids: Keys, keys: int) -> Callable[[Letters], ExpressUse] | None:
    """Return what lets copies serve what S3 would; None without S3 Express."""
    if scenario.express is None or scenario.trace.sizes_bytes is None:
        return None
    import numpy as np

    from burstcache_sim.engine import express

    sizes_bytes = scenario.trace.sizes_bytes[: len(t)].astype(np.int64)
    rules = copy_rules(scenario.express, sizes_bytes)
    return lambda tiers: express.serve(tiers, t, key_ids, sizes_bytes, rules, keys, scenario.until_us)


def _sizes(scenario: Scenario, n: int) -> tuple[Integers, int]:
    """Return the sizes of the first n requests' objects and what a node holds; without a limit there are none."""
    import numpy as np

    from burstcache_sim.engine.books import FOREVER_US, MAX_TIME_US

    sizes_bytes = scenario.trace.sizes_bytes
    if scenario.capacity_bytes is None or sizes_bytes is None:
        return np.zeros(0, np.int64), FOREVER_US
    return sizes_bytes[:n].astype(np.int64), min(scenario.capacity_bytes, MAX_TIME_US)


def _all_sizes(scenario: Scenario, n: int) -> Integers:
    """Return the sizes of the first n requests' objects; 0 where a trace does not know them."""
    import numpy as np

    sizes_bytes = scenario.trace.sizes_bytes
    return np.zeros(n, np.int64) if sizes_bytes is None else sizes_bytes[:n].astype(np.int64)


def _keys(scenario: Scenario, n: int) -> tuple[Keys, Integers]:
    """Return the keys of the first n requests, and each key's node."""
    import numpy as np

    key_ids = scenario.trace.key_ids
    key_ids = np.zeros(n, np.int32) if key_ids is None else key_ids[:n].astype(np.int32)
    homes = np.array(scenario.homes(), np.int64)
    if n and not 0 <= key_ids.min() <= key_ids.max() < len(homes):
        found = f"key numbers from {key_ids.min()} to {key_ids.max()}"
        raise InvalidSettingError(f"{found}: expected numbers from 0, and a name in `keys` for each ({len(homes)})")
    return key_ids, homes


def _checked(arrivals_us: NDArray[np.int64], until_us: int | None) -> tuple[Integers, int]:
    """Return the arrivals up to the horizon, and the horizon [us]."""
    import numpy as np

    from burstcache_sim.engine.books import FOREVER_US, MAX_TIME_US

    t = np.ascontiguousarray(arrivals_us, dtype=np.int64)
    if len(t) and (t[0] < 0 or t[-1] > MAX_TIME_US):
        raise InvalidSettingError(f"arrivals from {t[0]} to {t[-1]} us: expected times from 0 to {MAX_TIME_US} us")
    if np.any(t[1:] < t[:-1]):
        raise InvalidSettingError(f"arrival {int(np.argmax(t[1:] < t[:-1])) + 2} precedes the one before it: sort them")
    if until_us is None:
        return t, FOREVER_US
    if not 0 <= until_us <= MAX_TIME_US:
        raise InvalidSettingError(f"horizon {until_us} us: expected a time from 0 to {MAX_TIME_US} us")
    return t[: np.searchsorted(t, until_us, side="right")], until_us


def _row(policy: Policy, n: int) -> NamedTuple:
    """Return a policy's row if its engine takes it for a trace of n requests."""
    from burstcache_sim.engine.hooks import engine_of

    row = policy.compiled()
    assert row is not None, f"{policy.name} has no compiled engine"
    engine_of(type(row)).check(row, n)
    return row


def _timings(scenario: Scenario) -> TimingsRow:
    from burstcache_sim.engine.books import TimingsRow, check

    timings = TimingsRow(*astuple(scenario.timings))
    check(timings)
    return timings


def _totals(t: Integers) -> Records:
    """Return counts in which nothing has happened but the requests: a run ends no earlier than the last one."""
    import numpy as np

    from burstcache_sim.engine.books import COUNTS

    totals = np.zeros(1, COUNTS)
    totals["end_us"] = t[-1] if len(t) else 0
    return totals


def _spans(rows: int) -> Integers:
    """Return room for spans; where there are no rows, none is noted."""
    import numpy as np

    from burstcache_sim.engine.books import SPAN_COLUMNS

    return np.zeros((rows, SPAN_COLUMNS), np.int64)


def _result(
    n: int,
    totals: Records,
    until_us: int | None,
    spans: Integers | None = None,
    tiers: str = "",
    express: ExpressUse = NO_EXPRESS,
    n_express: int = 0,
) -> RunResult:
    """Return counts, and spans where they were noted, as a result."""
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
    """Return a sum of times that may have wrapped around at 64 bits: the bill rounds it up, by less than that [us]."""
    return most - (most - sum_us) % 2**64


def _tiers_of(n: int, spans: Integers) -> str:
    """Return the tier per request of one key: S3 serves what no span does."""
    pieces = []
    served = 0
    for who, first, after, _, _ in spans.tolist():
        if after > first:
            pieces += ["S" * (first - served), _TIERS[who] * (after - first)]
            served = after
    return "".join(chain(pieces, ["S" * (n - served)]))
