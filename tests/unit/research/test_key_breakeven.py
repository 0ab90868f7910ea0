"""Break-even per key: its parameters, its decisions, and keys that share a node."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.breakeven import THESIS_PRICES, BreakevenPrices
from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.trace import Trace
from research.policies.key_breakeven import KeyBreakeven, boots, invokes, key_breakeven
from support.reference import REFERENCE
from support.runs import run_many

S = US_PER_S
BREAKEVEN = KeyBreakeven.worth("1e-4")  # Redis outlives its last request by 56.901171 s
USUAL = BREAKEVEN.parameters  # boots at the third request within 26.981194 s, Lambda at a gap below 6.013772 s
CHEAP = KeyBreakeven.worth("1e-5").parameters  # boots at the sixth within 7.005223 s, without Lambda
DEAR = KeyBreakeven.worth("1e-3").parameters  # any request starts both


def trace_of(*requests: tuple[float, str], size_bytes: int | None = None) -> Trace:
    """Return a trace of (time [s], key)."""
    times_s, keys = zip(*requests, strict=True)
    sizes = None if size_bytes is None else np.full(len(requests), size_bytes, np.int64)
    key_ids = np.array(["abc".index(key) for key in keys], np.int32)
    return Trace(np.array([round(at_s * S) for at_s in times_s], np.int64), key_ids, sizes, tuple("abc"))


def tiers_of(trace: Trace, tiers: str, key: str) -> str:
    assert trace.key_ids is not None
    return "".join(tier for tier, id_ in zip(tiers, trace.key_ids, strict=True) if trace.keys[id_] == key)


@pytest.mark.parametrize("hit_value_usd", REFERENCE["be_params"])
def test_parameters_of_cache_functions_equal_the_reference(hit_value_usd: str) -> None:
    expected = REFERENCE["be_params"][hit_value_usd]

    found = KeyBreakeven.worth(hit_value_usd).parameters

    assert (found.uses_lambda, found.invoke_requests) == (expected["lam"], expected["w"])
    assert (found.lambda_gap_us, found.keep_running_us) == (expected["gl"], expected["keep_running"])
    assert (found.boot_requests, found.boot_within_us) == (expected["w2"], expected["t2"])
    assert found.redis_idle_us == expected["tau_r"]


@given(st.fractions(Fraction(1, 10**6), Fraction(1, 100)))
def test_a_dearer_hit_never_makes_cache_functions_rarer(hit_value_usd: Fraction) -> None:
    one, double = (key_breakeven(value, THESIS_PRICES) for value in (hit_value_usd, 2 * hit_value_usd))

    assert double.lambda_gap_us >= one.lambda_gap_us
    assert double.uses_lambda >= one.uses_lambda


def test_dearer_prices_shorten_the_gap_of_a_cache_function() -> None:
    dear = BreakevenPrices(THESIS_PRICES.lambda_usd_per_s * 2, THESIS_PRICES.redis_usd_per_s * 2)

    assert key_breakeven(Fraction("1e-4"), dear).lambda_gap_us < USUAL.lambda_gap_us


def test_any_request_starts_both_where_a_hit_is_worth_a_minimum_run() -> None:
    assert boots([7], DEAR)
    assert invokes([7], DEAR)


def test_a_gap_equal_to_the_limit_starts_no_cache_function() -> None:
    gap_us = USUAL.lambda_gap_us

    assert invokes([0, gap_us - 1], USUAL)
    assert not invokes([0, gap_us], USUAL)
    assert not invokes([0], USUAL)


def test_without_lambda_nothing_is_invoked() -> None:
    assert not CHEAP.uses_lambda
    assert not invokes([0, 0, 0], CHEAP)


def test_requests_boot_redis_only_within_less_than_the_limit() -> None:
    within_us = USUAL.boot_within_us

    assert boots([0, 1, 1, within_us], USUAL)
    assert not boots([0, 1, within_us], USUAL)
    assert not boots([0, 1], USUAL)


def test_a_node_stops_after_the_newest_request_of_any_key() -> None:
    trace = trace_of((0, "a"), (1, "a"), (2, "a"), (40, "b"), (41, "b"), (60, "b"), (100, "a"))

    result = run_many(trace, BREAKEVEN)

    assert tiers_of(trace, result.tiers, "b") == "SSR"
    assert tiers_of(trace, result.tiers, "a") == "SSLR"
    assert result.redis_spans_us == ((32 * S, 100 * S + BREAKEVEN.parameters.redis_idle_us),)


def test_an_object_that_has_left_its_node_is_put_back() -> None:
    first = [(0, "a"), (1, "a"), (2, "a"), (40, "b"), (41, "b"), (42, "c"), (43, "c")]
    trace = trace_of(*first, (44, "a"), (45, "a"), (46, "a"), size_bytes=4)

    result = run_many(trace, BREAKEVEN, capacity_bytes=8)

    assert tiers_of(trace, result.tiers, "a") == "SSLSSR"
    assert result.s3_requests == result.n_s3 + result.cold_starts + 4  # a twice
