"""The offline algorithm's branches; the reference's results are in `tests/golden`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.parameters import US_PER_S
from burstcache_sim.policies.offline import OfflineResult, offline

S = US_PER_S


def plan(*times_s: float) -> OfflineResult:
    return offline([round(time_s * S) for time_s in times_s])


def in_seconds(spans_us: tuple[tuple[int, int], ...]) -> list[tuple[float, float]]:
    return [(start_us / S, end_us / S) for start_us, end_us in spans_us]


def test_a_load_that_lasts_is_seen_while_lambda_runs() -> None:
    result = plan(0, 4, 10, 20, 30, 40, 50, 60, 92, 93)

    assert in_seconds(result.lambda_runs_us) == [(0, 35)]
    assert in_seconds(result.redis_runs_us) == [(34, 94)]
    assert result.cost_units == 290_820_000_000


def test_nine_requests_within_exactly_90_s_start_redis() -> None:
    assert len(plan(0, 1, 2, 3, 4, 5, 6, 7, 90).redis_runs_us) == 1
    assert len(plan(0, 1, 2, 3, 4, 5, 6, 7, 90.000001).redis_runs_us) == 0


def test_a_request_at_the_end_of_a_lambda_run_starts_afresh() -> None:
    assert in_seconds(plan(0, 4.999999).lambda_runs_us) == [(0, 10)]
    assert in_seconds(plan(0, 5).lambda_runs_us) == [(0, 5), (5, 10)]


@pytest.mark.parametrize(("gap_s", "end_s"), [(104.6, 194.6), (104.600001, 90)])
def test_redis_outlives_a_gap_of_104_6_s_and_no_longer_one(gap_s: float, end_s: float) -> None:
    result = plan(*[0] * 9, 90 + gap_s)

    assert in_seconds(result.redis_runs_us) == [(30, end_s)]


@given(st.lists(st.integers(0, 600 * S), max_size=60).map(sorted), st.integers(0, 10**12))
def test_every_request_is_served_and_a_shift_changes_nothing(trace_us: list[int], shift_us: int) -> None:
    result = offline(trace_us)

    spans_us = result.lambda_runs_us + result.redis_runs_us
    assert all(any(start_us <= at_us <= end_us for start_us, end_us in spans_us) for at_us in trace_us)
    assert offline([at_us + shift_us for at_us in trace_us]).cost_units == result.cost_units
