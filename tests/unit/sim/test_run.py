"""One key under both policies: what must hold for every trace, and the boundaries of the rules."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstcache.core.parameters import US_PER_S, parameters_from_text
from burstcache_sim.policies.breakeven import Breakeven
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from support.runs import run

S = US_PER_S
POLICIES = [
    Thesis.configured(9, 4),
    Thesis.configured(3, 2),
    *(Breakeven.worth(hit_value_usd) for hit_value_usd in ("1e-5", "1e-4", "3e-4", "1e-3")),
]
THESIS = POLICIES[0]  # TICK 5 s, lambdaThreshold 10 s, redisUtilization 60 s

# Gaps that meet the rules' boundaries exactly, and others around them.
gaps_us = st.one_of(
    st.sampled_from([0, 1, 20_000, 600_000, 4 * S, 5 * S, 10 * S, 30 * S, 60 * S, 600 * S]), st.integers(0, 90 * S)
)
traces_us = st.lists(gaps_us, min_size=1, max_size=60).map(
    lambda gaps: [sum(gaps[: index + 1]) for index in range(len(gaps))]
)
policies = st.sampled_from(POLICIES)


def seconds(*times_s: float) -> list[int]:
    return [round(time_s * S) for time_s in times_s]


@given(traces_us, policies, st.none() | st.integers(0, 1_000 * S))
def test_counts_add_up_and_no_time_is_negative(trace_us: list[int], policy: Policy, until_us: int | None) -> None:
    result = run(trace_us, policy, until_us=until_us)

    assert result.n == result.n_s3 + result.n_lambda + result.n_redis == len(result.tiers)
    assert result.n == sum(until_us is None or at_us <= until_us for at_us in trace_us)
    assert result.s3_requests == result.n_s3 + result.cold_starts + result.redis_starts
    assert result.cold_starts <= result.invocations
    assert 60 * len(result.redis_spans_us) <= result.redis_s
    assert result.lambda_ms * 1_000 >= result.lambda_us_exact >= 0
    assert result.redis_s * S >= result.redis_us_exact >= 0
    assert all(start_us <= end_us <= result.end_us for start_us, end_us in result.lambda_spans_us)
    assert all(start_us <= end_us <= result.end_us for start_us, end_us in result.redis_spans_us)


@given(traces_us, policies, st.integers(0, 10**12))
def test_shifting_a_trace_in_time_changes_nothing(trace_us: list[int], policy: Policy, shift_us: int) -> None:
    result = run(trace_us, policy)

    shifted = run([at_us + shift_us for at_us in trace_us], policy)

    def moved(spans_us: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        return tuple((start_us + shift_us, end_us + shift_us) for start_us, end_us in spans_us)

    assert shifted == replace(
        result,
        end_us=result.end_us + shift_us,
        log=tuple((at_us + shift_us, state, what) for at_us, state, what in result.log),
        lambda_spans_us=moved(result.lambda_spans_us),
        redis_spans_us=moved(result.redis_spans_us),
    )


@given(traces_us, policies)
def test_a_horizon_after_the_end_changes_nothing_but_the_end(trace_us: list[int], policy: Policy) -> None:
    natural = run(trace_us, policy)

    assert run(trace_us, policy, until_us=natural.end_us + 1) == replace(natural, end_us=natural.end_us + 1)


@given(traces_us, policies, st.integers(0, 1_000 * S))
def test_what_comes_after_the_horizon_changes_no_tier_before_it(
    trace_us: list[int], policy: Policy, until_us: int
) -> None:
    assert run(trace_us, policy).tiers.startswith(run(trace_us, policy, until_us=until_us).tiers)


@settings(max_examples=300)
@given(traces_us, policies)
def test_every_tier_is_that_of_the_spans(trace_us: list[int], policy: Policy) -> None:
    result = run(trace_us, policy)

    def is_within(at_us: int, spans_us: tuple[tuple[int, int], ...]) -> bool:
        return any(start_us <= at_us < end_us for start_us, end_us in spans_us)

    for at_us, tier in zip(trace_us, result.tiers, strict=True):
        in_redis = is_within(at_us, result.redis_spans_us)
        assert tier == ("R" if in_redis else "L" if is_within(at_us, result.lambda_spans_us) else "S")


def test_a_request_at_the_deadline_is_served_by_s3() -> None:
    just_before = run(seconds(0, 1, 6.599999), THESIS)
    at_deadline = run(seconds(0, 1, 6.6), THESIS)

    assert (just_before.tiers, at_deadline.tiers) == ("SSL", "SSS")


def test_a_start_is_warm_up_to_600_s_after_the_last_end() -> None:
    first = run(seconds(0, 1), THESIS)
    end_s = first.end_us / S

    warm = run(seconds(0, 1, end_s + 599, end_s + 600), THESIS)
    cold = run(seconds(0, 1, end_s + 599, end_s + 600.000001), THESIS)

    assert (warm.invocations, warm.cold_starts) == (2, 1)
    assert (cold.invocations, cold.cold_starts) == (2, 2)


def test_redis_that_becomes_ready_at_the_horizon_is_billed_a_minute() -> None:
    burst = seconds(0, 1, 2, 3, 4, 5, 6)

    result = run(burst, THESIS, until_us=36 * S)

    assert (result.redis_s, result.redis_us_exact, result.redis_starts) == (60, 0, 1)


def test_a_boot_in_progress_at_the_horizon_bills_no_seconds_but_counts() -> None:
    burst = seconds(0, 1, 2, 3, 4, 5, 6)

    result = run(burst, THESIS, until_us=36 * S - 1)

    assert (result.redis_s, result.redis_starts, result.s3_requests) == (0, 1, 4)


def test_a_cache_function_that_is_not_ready_at_the_horizon_counts_but_bills_no_time() -> None:
    result = run(seconds(0, 1), THESIS, until_us=round(1.5 * S))

    assert (result.invocations, result.cold_starts, result.lambda_ms) == (1, 1, 0)


def test_a_horizon_before_the_first_request_leaves_nothing() -> None:
    result = run(seconds(5), THESIS, until_us=4 * S)

    amounts = asdict(result)
    assert amounts.pop("end_us") == 4 * S
    assert not any(amounts.values())
    assert (result.in_memory_pct, result.tiers_rle) == (0.0, "")


def test_a_key_that_gets_hot_while_redis_stops_stays_in_restricted_lambda_until_it_has_stopped() -> None:
    burst = seconds(0, 1, 2, 3, 4, 5, 6)  # Redis boots at 6, is ready at 36 and stops at 96
    again = seconds(97, 98, 99, 100, 101, 102, 103, 104)

    result = run([*burst, *again, 127 * S], THESIS)

    states = [state for _, state, what in result.log if what == "->"]
    assert states[3:8] == ["REDISSHUTDOWN", "RESTRICTEDLAMBDA", "LAMBDA", "REDISBOOTUP", "REDISRUNNING"]
    assert (127 * S, "REDISBOOTUP", "->") in result.log  # the count is kept: the next request boots at once


def test_a_tick_of_zero_ends_a_cache_function_when_it_is_ready() -> None:
    policy = Thesis(parameters_from_text(rate="30", sensitivity="2", least_tick_s=0))

    result = run(seconds(0, 0.1, 0.8), policy)

    assert policy.parameters.tick_us == 0
    assert (result.tiers, result.invocations, result.lambda_ms) == ("SSS", 2, 0)


@pytest.mark.parametrize(("tiers", "code"), [("", ""), ("S", "S1"), ("SSLLLR", "S2L3R1"), ("S" * 12, "S12")])
def test_run_length_code_of_the_tiers(tiers: str, code: str) -> None:
    assert replace(run([], THESIS), tiers=tiers).tiers_rle == code
