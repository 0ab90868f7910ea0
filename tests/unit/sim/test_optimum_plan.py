"""One optimal plan: it serves every request, keeps the rules, and costs exactly the optimum."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.optimum.exact import MAX_SPAN_US, Variant, least_cost
from burstcache_sim.optimum.plans import Plan, plan
from burstcache_sim.traces.generate import spike
from burstcache_sim.units import INVOCATION_UNITS, LAMBDA_UNITS_PER_US, REDIS_UNITS_PER_US, S3_GET_UNITS
from support.searches import search
from support.trace_strategies import traces_us

SECOND = 1_000_000
PENALTIES = st.one_of(st.none(), st.integers(0, 40 * 10**9), st.sampled_from([0, 10**8, 3_600_000_000]))


def cost_units(found: Plan, penalty: int | None, least_lambda_us: int) -> int:
    """The rules' prices of a plan, and the penalties."""
    lambda_units = (
        INVOCATION_UNITS + LAMBDA_UNITS_PER_US * max(least_lambda_us, end_us - start_us)
        for start_us, end_us in found.lambda_spans_us
    )
    redis_units = (
        S3_GET_UNITS + REDIS_UNITS_PER_US * max(60 * SECOND, end_us - start_us)
        for start_us, end_us in found.redis_spans_us
    )
    return sum(lambda_units) + sum(redis_units) + found.misses * (S3_GET_UNITS + (penalty or 0))


@search(300)
@given(traces_us(most=60), PENALTIES, st.sampled_from(Variant))
def test_a_plan_costs_exactly_the_optimum_with_its_fewest_misses(
    t: list[int], penalty: int | None, variant: Variant
) -> None:
    found = plan(t, penalty, variant=variant)

    assert (cost_units(found, penalty, variant.value[0]), found.misses) == least_cost(t, penalty, variant=variant)


@search(100)
@given(traces_us(most=60), PENALTIES, st.sampled_from(Variant))
def test_every_request_is_served_or_counted_as_missed(t: list[int], penalty: int | None, variant: Variant) -> None:
    found = plan(t, penalty, variant=variant)

    spans_us = found.lambda_spans_us + found.redis_spans_us
    unserved = {i for i, at_us in enumerate(t) if not any(start <= at_us <= end for start, end in spans_us)}
    assert unserved <= set(found.missed)
    assert not (penalty is None and found.missed)


@search(100)
@given(traces_us(most=60), PENALTIES)
def test_redis_rests_a_minute_between_two_runs(t: list[int], penalty: int | None) -> None:
    runs_us = plan(t, penalty).redis_spans_us

    assert all(later[0] - earlier[1] >= 60 * SECOND for earlier, later in pairwise(runs_us))


def test_a_plan_whose_cost_fits_does_not_start_redis_too_early() -> None:
    t = [at_s * SECOND for at_s in (0, 40, 60, 100, 130, 150, 190, 230)]

    runs_us = plan(t).redis_spans_us

    assert all(later[0] - earlier[1] >= 60 * SECOND for earlier, later in pairwise(runs_us))


@search(50)
@given(traces_us(most=40), PENALTIES, st.integers(0, 10**17))
def test_a_shift_in_time_shifts_the_plan(t: list[int], penalty: int | None, shift_us: int) -> None:
    found, shifted = plan(t, penalty), plan([at_us + shift_us for at_us in t], penalty)

    assert shifted.missed == found.missed
    assert [start - shift_us for start, _ in shifted.redis_spans_us] == [start for start, _ in found.redis_spans_us]


def test_a_bridged_run_of_redis_follows_its_cache_function_after_30_s() -> None:
    busy = [at_s * SECOND for at_s in range(0, 300, 2)]

    found = plan(busy, variant=Variant.BRIDGED)

    assert found == Plan(((0, 30 * SECOND),), ((30 * SECOND, 298 * SECOND),))


def test_a_long_trace_of_many_runs_is_traced_back() -> None:
    t = [at_us + 3_000 * SECOND * burst for burst in range(500) for at_us in spike(burst, 50.0, 100)]
    t.sort()

    found = plan(t)

    assert (cost_units(found, None, 5 * SECOND), 0) == least_cost(t)
    assert len(found.redis_spans_us) > 400


def test_the_longest_span_is_exact() -> None:
    assert plan([0, MAX_SPAN_US]).lambda_spans_us == ((0, 0), (MAX_SPAN_US, MAX_SPAN_US))


def test_an_empty_trace_has_an_empty_plan() -> None:
    assert plan([]) == Plan()


def test_a_penalty_below_zero_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="penalty of -1 units"):
        plan([0], -1)
