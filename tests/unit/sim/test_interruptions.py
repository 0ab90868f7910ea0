"""Interruptions of nodes on Spot."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S, live_parameters
from burstcache_sim.engine.run import run_compiled
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.interruptions import Interruptions
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.simulate import simulate

BREAKEVEN = WORTH_POLICIES["breakeven"].worth(Fraction("1e-5"))
SPAN_US = 200 * US_PER_H


def busy_day(keys: int = 5, seconds: int = 20_000) -> Trace:
    """Return requests of a few keys, about one a second in all."""
    random = np.random.default_rng(7)
    times_us = (np.cumsum(random.exponential(1.0, seconds)) * US_PER_S).astype(np.int64)
    ids = random.integers(0, keys, seconds).astype(np.int32)
    return Trace(times_us, ids, np.full(seconds, 10_000, np.int64), tuple(map(str, range(keys))))


def times(per_h: Fraction | int, *, nodes: int = 1, seed: int = 1, span_us: int = SPAN_US) -> set[tuple[int, int]]:
    at_us, of_nodes = Interruptions(per_h, seed).times(nodes, 0, span_us)
    assert (np.diff(at_us) >= 0).all()
    return set(zip(at_us.tolist(), of_nodes.tolist(), strict=True))


@given(st.fractions(0, 8), st.fractions(0, 8), st.integers(0, 100))
def test_a_higher_rate_adds_interruptions_and_moves_none(one: Fraction, other: Fraction, seed: int) -> None:
    """So that two rates differ by nothing else."""
    lower, higher = sorted((one, other))
    assert times(lower, nodes=2, seed=seed) <= times(higher, nodes=2, seed=seed)


@given(st.fractions(0, 8), st.integers(0, SPAN_US))
def test_a_longer_log_keeps_the_interruptions_of_a_shorter_one(per_h: Fraction, span_us: int) -> None:
    """The second of two repetitions does not change the first."""
    assert {one for one in times(per_h) if one[0] <= span_us} == times(per_h, span_us=span_us)


def test_the_rate_is_the_mean_number_an_hour_and_each_node_has_its_own() -> None:
    """Within four standard deviations."""
    found = times(Fraction(5, 2), nodes=3)
    for node in range(3):
        count = sum(of_node == node for _, of_node in found)
        assert abs(count - 500) < 4 * 500**0.5
    assert len({at_us for at_us, _ in found}) == len(found)
    assert times(1, seed=1) != times(1, seed=2)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", list(WORTH_POLICIES))
def test_rate_0_changes_nothing(name: str, nodes: int) -> None:
    """Neither simulator."""
    policy, plain = WORTH_POLICIES[name].worth(Fraction("1e-5")), Scenario(busy_day(seconds=3_000), nodes, 40_000)
    never = replace(plain, interruptions=Interruptions(0))
    assert simulate(policy, never) == simulate(policy, plain)
    assert run_compiled([policy], never) == run_compiled([policy], plain) == [simulate(policy, plain)]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", list(WORTH_POLICIES))
def test_both_simulators_interrupt_the_same_nodes(name: str, seed: int) -> None:
    """Nodes are interrupted while they boot, run, stop and are off."""
    policy = WORTH_POLICIES[name].worth(Fraction("1e-5"))
    scenario = Scenario(busy_day(), 2, 40_000, interruptions=Interruptions(30, seed))
    expected = simulate(policy, scenario)
    assert run_compiled([policy], scenario) == [expected]
    assert expected.redis_starts > len(expected.redis_spans_us) > 20


def test_an_interrupted_node_loses_its_objects_and_boots_again_if_that_pays() -> None:
    """No read of the interrupted node is served by it until the next boot is over."""
    scenario = Scenario(busy_day(keys=1), interruptions=Interruptions(1))
    at_us = int(scenario.interruptions_at()[0][0])
    run, tiers_at = simulate(BREAKEVEN, scenario), busy_day(keys=1).arrivals_us
    (first, second, *_) = run.redis_spans_us
    assert first[1] == at_us
    assert second[0] >= at_us + scenario.timings.redis_stop_us + scenario.timings.redis_boot_us
    between = "".join(np.array(list(run.tiers))[(tiers_at > at_us) & (tiers_at < second[0])])
    assert "R" not in between
    assert between


def test_more_interruptions_mean_fewer_hits_of_the_node() -> None:
    """From none to one every four minutes."""
    rates = (0, Fraction(1, 2), 2, 6, 15)
    hits = [simulate(BREAKEVEN, Scenario(busy_day(), interruptions=Interruptions(rate))).n_redis for rate in rates]
    assert hits == sorted(hits, reverse=True)
    assert hits[0] > hits[-1] > 0


def test_what_is_not_simulated_is_refused() -> None:
    """Always-on nodes, the thesis's policy, and rates that are none."""
    trace = busy_day(seconds=10)
    with pytest.raises(InvalidSettingError, match="always on"):
        Scenario(trace, always_on=1, interruptions=Interruptions(1))
    thesis = Thesis(live_parameters(rate="9", sensitivity="4", overrides=""))
    with pytest.raises(InvalidSettingError, match="read-through"):
        simulate(thesis, Scenario(trace, interruptions=Interruptions(1)))
    with pytest.raises(InvalidSettingError, match="at least 0"):
        Interruptions(1, seed=-1)
    for rate in (Fraction(-1, 2), 61):
        with pytest.raises(InvalidSettingError, match="an hour"):
            Interruptions(rate)
