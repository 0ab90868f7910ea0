"""The break-even policy's parameters; the reference's values are in `tests/golden`."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.breakeven import (
    ALWAYS_US,
    THESIS_PRICES,
    BreakevenPrices,
    breakeven,
    redis_stop_us,
)
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S

S = US_PER_S
USUAL = breakeven(Fraction("1e-4"))  # boots at the third within 26.981194 s
DEAR = breakeven(Fraction("1e-3"))  # any request boots


@given(st.fractions(Fraction(1, 10**8), 1))
def test_boot_requests_are_the_rounded_logarithm(hit_value_usd: Fraction) -> None:
    exact = 1 + log2(1 + 60 * THESIS_PRICES.redis_usd_per_s / hit_value_usd)

    found = breakeven(hit_value_usd).boot_requests

    assert abs(found - exact) <= 0.5 + 1e-9
    assert found >= 1


@given(st.fractions(Fraction(1, 10**6), Fraction(1, 100)))
def test_a_dearer_hit_never_makes_the_policy_meaner(hit_value_usd: Fraction) -> None:
    one, double = breakeven(hit_value_usd), breakeven(2 * hit_value_usd)

    assert double.boot_requests <= one.boot_requests
    assert double.redis_idle_us >= one.redis_idle_us


def test_dearer_prices_shorten_what_idles() -> None:
    dear = BreakevenPrices(THESIS_PRICES.lambda_usd_per_s * 2, THESIS_PRICES.redis_usd_per_s * 2)

    parameters = breakeven(Fraction("1e-4"), dear)

    assert parameters.redis_idle_us < USUAL.redis_idle_us


def test_any_request_boots_where_a_hit_is_worth_a_minimum_run() -> None:
    assert (DEAR.boot_requests, DEAR.boot_within_us) == (1, ALWAYS_US)


def test_redis_runs_as_long_as_it_is_billed_and_outlives_its_last_request() -> None:
    assert redis_stop_us(since_us=10 * S, last_us=0, parameters=USUAL) == 70 * S
    assert redis_stop_us(since_us=10 * S, last_us=50 * S, parameters=USUAL) == 50 * S + USUAL.redis_idle_us


@pytest.mark.parametrize("hit_value_usd", ["0", "-1e-4"])
def test_a_hit_that_is_worth_nothing_is_refused(hit_value_usd: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"hit value -?[\d.e-]+ USD: expected an amount above 0"):
        breakeven(Fraction(hit_value_usd))
