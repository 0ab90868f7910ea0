"""Strategies of policies and horizons for property tests: policies as configured, and with each value set alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from burstcache.core.parameters import Parameters
from burstcache.core.worth import MICRO, TierPrices
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
_USE_WORTHS = st.sampled_from(["1e-5", "1e-4", "3e-4", "1e-3", "1e-2", "1"])
# A node boots within a test even if its arrivals are single hits. If checks cost money, they grow less frequent.
_USE_PRICES = st.sampled_from(
    [THESIS_PRICES, replace(THESIS_PRICES, check_usd=Fraction("8e-5"), run_usd=Fraction("1.5e-4"))]
)
_WHOLES = st.sampled_from([300_000, MICRO, 2 * MICRO + 1])


def _by_use(
    kind: type[Breakeven] | type[Hazard], worth_usd: str, prices: TierPrices, whole: int, relay: bool
) -> Policy:
    usual = kind.worth(worth_usd, prices)
    node: Any = usual.parameters.node
    return kind(replace(usual.parameters, node=replace(node, arrival_weight=whole)), relay)


BY_USE = st.builds(_by_use, st.sampled_from([Breakeven, Hazard]), _USE_WORTHS, _USE_PRICES, _WHOLES, st.booleans())
POLICIES: st.SearchStrategy[Policy] = st.one_of(CONFIGURED, OVERRIDDEN, BY_USE)
HORIZONS = st.one_of(st.none(), st.integers(0, 400 * SECOND), st.integers(0, 60).map(lambda s: s * 30 * SECOND))
