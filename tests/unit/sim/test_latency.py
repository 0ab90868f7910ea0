"""Latency per tier and its spread: exact summaries, and draws that agree with them."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.latency import THESIS_AT_THE_CLIENT, TODAYS_LATENCIES, LatencySummary, TierLatencies, summarise
from support.searches import search

COUNTS = st.tuples(*[st.integers(0, 10_000)] * 3)
LATENCIES = st.builds(
    TierLatencies,
    s3_ms=st.floats(0, 500),
    lambda_ms=st.floats(0, 50),
    redis_ms=st.floats(0, 50),
    network_ms=st.floats(0, 100),
    spread=st.sampled_from([0.0, 0.1, 0.3, 1.0]),
)


def test_the_mean_is_that_of_the_tiers_weighted_by_their_requests() -> None:
    assert summarise(1, 2, 7).mean_ms == pytest.approx((25 + 2 * 1.5 + 7 * 1.0) / 10)


def test_one_tiers_quantiles_are_those_of_the_log_normal() -> None:
    found = summarise(10, 0, 0, TierLatencies(spread=0.3))

    assert found.p50_ms == pytest.approx(25 * exp(-0.045))
    assert found.p99_ms == pytest.approx(25 * exp(0.3 * 2.3263478740408408 - 0.045))


def test_without_spread_every_request_takes_its_tiers_mean() -> None:
    found = summarise(10, 20, 70, replace(THESIS_AT_THE_CLIENT, spread=0.0))

    assert found == LatencySummary(mean_ms=30.0, p50_ms=25.0, p90_ms=25.5, p95_ms=74.0, p99_ms=74.0)


def test_no_request_has_no_latency() -> None:
    assert summarise(0, 0, 0, TierLatencies(network_ms=24.0)) == LatencySummary(0.0, 0.0, 0.0, 0.0, 0.0)


def test_the_summary_is_that_of_log_normal_latencies() -> None:
    random, spread = np.random.default_rng(1), TODAYS_LATENCIES.spread
    means_ms = np.repeat([25.0, 1.5, 1.0], [60_000, 60_000, 180_000])

    drawn = 5.0 + means_ms * random.lognormal(-(spread**2) / 2, spread, len(means_ms))

    found = summarise(60_000, 60_000, 180_000, TierLatencies(network_ms=5.0))
    assert drawn.mean() == pytest.approx(found.mean_ms, rel=0.01)
    quantiles = (found.p50_ms, found.p90_ms, found.p95_ms, found.p99_ms)
    assert np.quantile(drawn, [0.5, 0.9, 0.95, 0.99]) == pytest.approx(quantiles, rel=0.02)


@search(200)
@given(COUNTS, LATENCIES)
def test_quantiles_rise_and_lie_within_the_slowest_and_the_fastest_tier(
    counts: tuple[int, int, int], latencies: TierLatencies
) -> None:
    found = summarise(*counts, latencies)

    rising = [found.p50_ms, found.p90_ms, found.p95_ms, found.p99_ms]
    assert rising == sorted(rising)
    if sum(counts):
        s3, lambda_, redis = counts
        split = ((s3, 0, 0), (0, lambda_, 0), (0, 0, redis))
        alone = [summarise(*of_one_tier, latencies) for of_one_tier in split if any(of_one_tier)]
        assert min(one.p99_ms for one in alone) <= found.p99_ms * (1 + 1e-12)
        assert found.p99_ms <= max(one.p99_ms for one in alone) * (1 + 1e-12)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_latency_below_zero_or_no_number_is_refused(value: float) -> None:
    with pytest.raises(InvalidSettingError, match=r"redis_ms .*: expected a number of at least 0"):
        TierLatencies(redis_ms=value)
