"""Policies and horizons for property tests: as configured, and with every value set by itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from burstcache.core.breakeven import BreakevenParameters
from burstcache.core.hazard import HazardConstants, hazard
from burstcache.core.parameters import Parameters
from burstcache.core.worth import MICRO, TierPrices
from burstcache_sim.policies.key_breakeven import KeyBreakeven
from burstcache_sim.policies.key_hazard import KeyHazard
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import THESIS_PRICES, Policy
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
_USE_WORTHS = st.sampled_from(["1e-5", "1e-4", "3e-4", "1e-3", "1e-2", "1"])
# A node whose arrivals are single hits boots within a test; with looks that cost something they grow apart.
_USE_PRICES = st.sampled_from(
    [THESIS_PRICES, replace(THESIS_PRICES, look_usd=Fraction("8e-5"), run_usd=Fraction("1.5e-4"))]
)
_WHOLES = st.sampled_from([300_000, MICRO, 2 * MICRO + 1])


def _by_use(
    kind: type[Breakeven] | type[Hazard], worth_usd: str, prices: TierPrices, whole: int, relay: bool
) -> Policy:
    usual = kind.worth(worth_usd, prices)
    node: Any = usual.parameters.node
    return kind(replace(usual.parameters, node=replace(node, whole=whole)), relay)


BY_USE = st.builds(_by_use, st.sampled_from([Breakeven, Hazard]), _USE_WORTHS, _USE_PRICES, _WHOLES, st.booleans())
POLICIES: st.SearchStrategy[Policy] = st.one_of(CONFIGURED, OVERRIDDEN, KNOB, FREE, HAZARD, BY_USE)
HORIZONS = st.one_of(st.none(), st.integers(0, 400 * SECOND), st.integers(0, 60).map(lambda s: s * 30 * SECOND))
