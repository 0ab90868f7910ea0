"""Proactive boots: a node that is ready when a burst recurs, and that stops trying when it does not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.worth import tier_prices
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from research.policies.proactive import DAY_US, HOUR_US, Hindsight, Proactive, Recurrence
from research.proactive_boots import MAX_BYTES, fortnights, gains, repeated

PRICES = tier_prices(price_sheet("today-us-east-1"), node_type="t4g.nano", cache_memory_mb=256)
VALUE_USD = Fraction("1e-5")


def bursts(starts_us: list[int], seed: int = 1) -> Trace:
    """Return bursts of 400 requests for the same 20 objects within two minutes."""
    random = np.random.default_rng(seed)
    times_us = np.concatenate([start + np.sort(random.integers(0, 120 * US_PER_S, 400)) for start in starts_us])
    ids = random.integers(0, 20, len(times_us)).astype(np.int32)
    return Trace(times_us, ids, np.full(len(ids), 10_000, np.int64), tuple(map(str, range(20))))


def run(trace: Trace, until_us: int, policy: Proactive | None = None) -> RunResult:
    usual = replace(Proactive.worth(VALUE_USD, PRICES), has_relay=False, noted=[])
    return simulate(policy or usual, Scenario(trace, until_us=until_us))


def reactive() -> Proactive:
    return replace(Proactive.worth(VALUE_USD, PRICES), has_relay=False, plans=False, noted=[])


def missed(trace: Trace, result: RunResult, from_us: int) -> int:
    return sum(tier != "R" for tier, at_us in zip(result.tiers, trace.arrivals_us, strict=True) if at_us >= from_us)


def test_a_burst_of_every_hour_finds_a_node_after_two() -> None:
    """The first two teach when it comes."""
    trace = bursts([hour * HOUR_US + 300 * US_PER_S for hour in range(12)])
    usual, found = run(trace, 12 * HOUR_US, reactive()), run(trace, 12 * HOUR_US)

    assert missed(trace, usual, 3 * HOUR_US) > 9 * 60
    assert missed(trace, found, 3 * HOUR_US) <= 9 * 20  # each object's first read in a run
    assert found.tiers[:800] == usual.tiers[:800]


def test_a_burst_that_ends_for_good_costs_a_few_boots() -> None:
    """The chance falls with every boot for nothing."""
    trace = bursts([hour * HOUR_US for hour in range(1, 9)])
    usual, found = run(trace, 20 * DAY_US, reactive()), run(trace, 20 * DAY_US)

    assert 0 < found.redis_starts - usual.redis_starts < 40


def test_a_burst_of_working_days_is_seldom_expected_on_a_weekend() -> None:
    """The chance of a day of the week is drawn to that of all days until it has been tried."""
    daily = Recurrence(DAY_US, 9 * HOUR_US, 0.0, 100.0)
    for day in range(28):
        daily.learn(day, day * DAY_US + 9 * HOUR_US if day % 7 < 5 else None, 100.0)

    chances = [daily.chance(day) for day in range(28, 35)]
    assert min(chances[:5]) > 0.8
    assert max(chances[5:]) < 0.3
    assert Recurrence(DAY_US, 0.0, 0.0, 1.0, came=1.0, tried=1.0).chance(3) == 0.5


def test_hindsight_misses_no_burst_that_pays_but_the_first() -> None:
    """It is told of the bursts of a reactive run, whose objects are known from the second on."""
    random = np.random.default_rng(2)
    starts = np.cumsum(random.integers(HOUR_US, 5 * HOUR_US, 10)).tolist()
    trace, noting = bursts(starts), reactive()
    run(trace, 3 * DAY_US, noting)
    told = Hindsight(noting.parameters, has_relay=False, begun=tuple(noting.noted))

    assert len(noting.noted) == 10
    assert missed(trace, run(trace, 3 * DAY_US, told), starts[1]) <= 9 * 20


def test_hindsight_earns_at_least_as_much_as_what_is_learned() -> None:
    """On bursts of every hour both earn."""
    trace = bursts([hour * HOUR_US for hour in range(1, 72)])
    _, proactive, told = gains(trace, 3 * DAY_US, "t4g.nano", VALUE_USD)

    assert 0 < proactive.net_usd <= told.net_usd * 1.02
    assert proactive.hits > 0


def test_a_log_repeats_daily_without_its_large_objects() -> None:
    """A night of bursts becomes two weeks of them."""
    trace = bursts([HOUR_US, 2 * HOUR_US])
    assert trace.sizes_bytes is not None
    sizes = trace.sizes_bytes.copy()
    sizes[0] = MAX_BYTES + 1
    fortnight = repeated(replace(trace, sizes_bytes=sizes))

    assert len(fortnight) == 14 * 799
    assert int(fortnight.arrivals_us[799] - fortnight.arrivals_us[0]) == DAY_US


def test_the_office_has_its_bursts_on_working_days_but_two() -> None:
    """Nine o'clock, give or take some minutes."""
    times_us = fortnights(weeks=2).arrivals_us
    days = times_us[times_us % DAY_US // HOUR_US == 10] // DAY_US
    busy = times_us[(times_us % DAY_US >= 9 * HOUR_US) & (times_us % DAY_US < 9.3 * HOUR_US)] // DAY_US
    many = [day for day in range(14) if (busy == day).sum() > 1_000]

    assert len(set(days.tolist())) == 14
    assert len(many) == 8
    assert all(day % 7 < 5 for day in many)
