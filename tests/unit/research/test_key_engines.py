"""The compiled engines of the policies per key equal the readable simulator in every field."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.hazard import HazardConstants, hazard
from burstcache_sim.engine import run as engine_run
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario, numbered_keys
from burstcache_sim.world.timings import Timings
from research.policies.key_breakeven import KeyBreakeven, KeyBreakevenParameters
from research.policies.key_hazard import KeyHazard
from support.policy_strategies import HORIZONS, SECOND, TIMES_US
from support.runs import run, run_fast, run_many, run_shared
from support.searches import search
from support.trace_strategies import gaps_us, traces_us

KNOB = st.sampled_from(["1e-7", "1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "1e-2"]).map(KeyBreakeven.worth)
FREE = st.builds(
    KeyBreakevenParameters,
    boot_requests=st.integers(1, 6),
    boot_within_us=TIMES_US,
    uses_lambda=st.booleans(),
    invoke_requests=st.integers(1, 2),
    lambda_gap_us=TIMES_US,
    redis_idle_us=TIMES_US,
    redis_least_us=TIMES_US,
    keep_running_us=TIMES_US,
).map(KeyBreakeven)
WORTHS = st.sampled_from(["1e-7", "1e-6", "1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "1e-2", "1"]).map(Fraction)
CONSTANTS = st.builds(
    HazardConstants,
    switch=st.sampled_from([0.02, 0.1, 0.4]),
    prior_power=st.sampled_from([0.0, 0.2, 0.6]),
    prior_gaps=st.sampled_from([1.0, 5.0, 20.0]),
    restart=st.sampled_from([0.0, 0.5]),
    lambda_margin=st.sampled_from([0.5, 1.0, 2.0]),
    bridge_margin=st.sampled_from([0.3, 1.0, 1.5]),
)
HAZARD = st.builds(lambda worth_usd, constants: KeyHazard(hazard(worth_usd, constants=constants)), WORTHS, CONSTANTS)
POLICIES: st.SearchStrategy[Policy] = st.one_of(KNOB, FREE, HAZARD)
REQUESTS = st.lists(st.tuples(gaps_us(), st.integers(0, 7), st.integers(0, 6)), max_size=100)
CAPACITIES = st.none() | st.integers(1, 20)


@pytest.mark.slow
@search(1000)
@given(traces_us(most=80), POLICIES, HORIZONS)
def test_one_key_gives_the_readable_simulators_result(t: list[int], policy: Policy, until_us: int | None) -> None:
    readable = run(t, policy, until_us=until_us)

    assert run_fast(t, policy, until_us=until_us) == replace(readable, log=())


@search(100)
@given(traces_us(most=80), POLICIES)
def test_other_timings_give_the_readable_simulators_results_too(t: list[int], policy: Policy) -> None:
    timings = Timings(5 * SECOND, 50 * SECOND, 90 * SECOND, 16 * SECOND, 7 * SECOND, 10 * SECOND)

    assert run_fast(t, policy, timings=timings) == replace(run(t, policy, timings=timings), log=())


@search(300)
@given(REQUESTS, HAZARD, st.integers(1, 3), CAPACITIES, HORIZONS)
def test_keys_that_share_nodes_give_the_readable_simulators_result(
    requests: list[tuple[int, int, int]],
    policy: Policy,
    nodes: int,
    capacity_bytes: int | None,
    until_us: int | None,
) -> None:
    columns = np.array(requests, np.int64).reshape(-1, 3)
    trace = Trace(np.cumsum(columns[:, 0]), columns[:, 1].astype(np.int32), columns[:, 2], tuple("abcdefgh"))

    found = run_shared(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)

    assert found == run_many(trace, policy, nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)


def test_a_run_with_more_spans_than_usual_has_all_of_them_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    t = np.array([burst * 7_200 * SECOND + each * SECOND for burst in range(3) for each in range(40)])
    two_keys = Trace(t, np.arange(len(t), dtype=np.int32) % 2, keys=numbered_keys(2))
    policy, scenarios = KeyHazard.worth("1e-4"), (Scenario(Trace(t)), Scenario(two_keys, nodes=2))
    usual = [replay_each([policy], scenario, details=True) for scenario in scenarios]
    assert all(len(run.redis_spans_us) + len(run.lambda_spans_us) > 1 for (run,) in usual)

    monkeypatch.setattr(engine_run, "_USUAL_SPANS", 1)

    assert [replay_each([policy], scenario, details=True) for scenario in scenarios] == usual
