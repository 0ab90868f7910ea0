"""Hazard per key over time: what it keeps for a steady key, for a burst, for keys that share a node."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.hazard import hazard
from burstcache_sim.choose.matched_cost import Point, hull_usd
from burstcache_sim.policies.policy import WorthPolicy
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.generate import poisson
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import UNITS_PER_USD, run_cost_units
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate
from research.policies.key_breakeven import KeyBreakeven
from research.policies.key_hazard import KeyHazard
from support.runs import run, run_fast, run_many, run_shared

SECOND = 1_000_000
USUAL = KeyHazard.worth("1e-4")


def bursts_of_many_keys() -> Trace:
    """Twelve bursts in a day, 200 s wide, over 50 keys of Zipf's law."""
    random = np.random.default_rng(7)
    starts_s = random.integers(0, 12, 7_200) * 7_200
    times_us = np.sort((starts_s + 600 + random.normal(0, 200, 7_200)) * SECOND).astype(np.int64)
    shares = 1 / np.arange(1, 51)
    key_ids = random.choice(50, 7_200, p=shares / shares.sum()).astype(np.int32)
    return Trace(times_us - times_us[0], key_ids, keys=tuple(map(str, range(50))))


@cache
def curve(policy: type[WorthPolicy]) -> list[Point]:
    """Return share and cost of a policy over bursts of many keys, from a hit of 1e-7 USD to one of 0.1 USD."""
    scenario = Scenario(bursts_of_many_keys())
    settings = [policy.worth(Fraction(f"{10 ** (step / 5):.3g}")) for step in range(-35, -4)]
    is_compiled = policy is KeyHazard  # break-even's engine takes one key
    runs = replay_each(settings, scenario) if is_compiled else [simulate(setting, scenario) for setting in settings]
    return [Point(100 * (r.n_lambda + r.n_redis) / r.n, run_cost_units(r) / UNITS_PER_USD) for r in runs]


def test_redis_is_booted_once_for_a_steady_key_whose_rate_pays() -> None:
    found = run_fast(poisson(1, 6, 86_400), USUAL)

    assert found.redis_starts == 1
    assert found.in_memory_pct > 99.8


def test_redis_leaves_a_key_that_is_asked_for_once_an_hour() -> None:
    found = run_fast(np.arange(24) * 3_600 * SECOND, USUAL)

    assert found.redis_s <= 24 * 60
    assert found.n_redis == 0


def test_the_same_silence_ends_redis_sooner_after_a_burst_than_for_a_key_that_is_steady() -> None:
    steady_us = np.arange(0, 3_600, 15) * SECOND
    burst_us = np.arange(0, 120, 1) * SECOND

    stays_us = [found.redis_spans_us[-1][1] - int(t[-1]) for t in (steady_us, burst_us) for found in [run(t, USUAL)]]

    assert stays_us[0] > 3 * stays_us[1] > 0


def test_a_key_that_is_new_to_a_running_node_joins_it_with_its_first_request() -> None:
    times_us = np.array([*range(0, 60, 1), 60, 61]) * SECOND
    key_ids = np.array([0] * 60 + [1, 1], np.int32)

    found = run_many(Trace(times_us, key_ids, keys=("a", "b")), USUAL)

    assert found.tiers[-2:] == "SR"
    assert found.redis_starts == 1


def test_keys_too_slow_to_pay_for_a_node_each_pay_for_one_together() -> None:
    gap_us = 100 * SECOND  # of each key; a hit pays for 27 s of Redis
    alone = run_fast(np.arange(200) * gap_us, USUAL)

    times_us, key_ids = np.arange(4_000) * gap_us // 20, np.arange(4_000, dtype=np.int32) % 20
    together = run_shared(Trace(times_us, key_ids, keys=tuple(map(str, range(20)))), USUAL)

    assert alone.in_memory_pct < 10
    assert together.in_memory_pct > 95


@pytest.mark.parametrize(("share_pct", "most"), [(30, 0.55), (60, 0.55), (90, 0.75)])
def test_bursts_over_many_keys_cost_less_than_under_break_even(share_pct: float, most: float) -> None:
    mine, theirs = (hull_usd(curve(policy), share_pct) for policy in (KeyHazard, KeyBreakeven))

    assert mine is not None
    assert theirs is not None
    assert mine <= most * theirs


def test_two_runs_are_the_same_to_the_last_field() -> None:
    trace = bursts_of_many_keys()

    assert run_shared(trace, USUAL) == run_shared(trace, USUAL)


def test_a_minimum_run_that_would_overflow_is_refused() -> None:
    parameters = replace(hazard(Fraction("1e-4")), redis_least_us=10**19)

    with pytest.raises(InvalidSettingError, match="redis_least_us 10000000000000000000"):
        run_fast([0, 1], KeyHazard(parameters))
