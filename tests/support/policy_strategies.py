"""Policies and horizons for property tests: as configured, and with every value set by itself."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from burstcache.core.breakeven import BreakevenParameters
from burstcache.core.hazard import HazardConstants, hazard
from burstcache.core.parameters import Parameters
from burstcache_sim.policies.key_breakeven import KeyBreakeven
from burstcache_sim.policies.key_hazard import KeyHazard
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis

SECOND = 1_000_000
TIMES_US = st.integers(1, 150).map(lambda seconds: seconds * SECOND)
CONFIGURED = st.builds(
    Thesis.configured,
    st.sampled_from(["0.5", "3", "4", "7.5", "9"]),
    st.integers(2, 5),
)
OVERRIDDEN = st.builds(
    Parameters,
    tick_us=st.integers(0, 10).map(lambda seconds: seconds * SECOND),
    lambda_window_elements=st.integers(2, 5),
    lambda_threshold_us=TIMES_US,
    redis_threshold=st.integers(0, 8),
    redis_utilization_us=TIMES_US,
    redis_check_us=TIMES_US,
    keep_running_us=TIMES_US,
).flatmap(lambda parameters: st.builds(Thesis, st.just(parameters), st.booleans()))
KNOB = st.sampled_from(["1e-7", "1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "1e-2"]).map(KeyBreakeven.worth)
FREE = st.builds(
    BreakevenParameters,
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
POLICIES: st.SearchStrategy[Policy] = st.one_of(CONFIGURED, OVERRIDDEN, KNOB, FREE, HAZARD)
HORIZONS = st.one_of(st.none(), st.integers(0, 400 * SECOND), st.integers(0, 60).map(lambda s: s * 30 * SECOND))
