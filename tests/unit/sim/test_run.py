"""One key under the thesis's policy: the boundaries of the rules."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from burstcache.core.parameters import US_PER_S, parameters_from_text
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.world.result import NO_EXPRESS, NO_GUESTS
from support.runs import run

S = US_PER_S
THESIS = Thesis.configured(9, 4)  # TICK 5 s, lambdaThreshold 10 s, redisUtilization 60 s


def seconds(*times_s: float) -> list[int]:
    return [round(time_s * S) for time_s in times_s]


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
    assert amounts.pop("express") == asdict(NO_EXPRESS)
    assert amounts.pop("guests") == asdict(NO_GUESTS)
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
