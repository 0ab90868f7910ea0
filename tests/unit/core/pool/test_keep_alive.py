"""Keep-alive of members: at most twice the least cost, and close to it if gaps repeat."""

from __future__ import annotations

import random
from collections.abc import Iterable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.pool.keep_alive import GAPS, KeepAlive, KeepAlivePrices, best_limit_ms, keep_alive_prices
from burstcache.core.prices import price_sheet

_PRICES = KeepAlivePrices(idle_usd_per_ms=1.0, wake_usd=30.0)
_LEAST = 1e-9


def paid_and_least(gaps_ms: Iterable[float], prices: KeepAlivePrices = _PRICES) -> tuple[float, float]:
    """Return a member's cost for unknown gaps, and the least cost with the gaps known [USD]."""
    stay, paid, least = KeepAlive.initial(prices), 0.0, 0.0
    for gap_ms in gaps_ms:
        limit_ms = stay.limit_ms()
        paid += min(gap_ms, limit_ms) * prices.idle_usd_per_ms + (prices.wake_usd if limit_ms < gap_ms else 0)
        least += min(gap_ms * prices.idle_usd_per_ms, prices.wake_usd)
        stay = stay.after(gap_ms, limit_ms)
    return paid, least


@given(st.lists(st.floats(0.001, 10_000), max_size=60))
def test_no_gaps_cost_more_than_twice_the_least_and_a_wake(gaps_ms: list[float]) -> None:
    paid, least = paid_and_least(gaps_ms)

    assert paid <= 2 * least * (1 + _LEAST) + _PRICES.wake_usd


@given(st.integers(0, 40))
def test_an_adversary_that_asks_just_after_each_return_gains_no_more_than_twice(first_gaps: int) -> None:
    stay, paid, least = KeepAlive.initial(_PRICES), 0.0, 0.0
    for number in range(first_gaps + 60):
        limit_ms = stay.limit_ms()
        gap_ms = 5.0 if number < first_gaps else limit_ms + 0.001
        paid += min(gap_ms, limit_ms) + (30 if limit_ms < gap_ms else 0)
        least += min(gap_ms, 30)
        stay = stay.after(gap_ms, limit_ms)

    assert paid <= 2 * least * (1 + _LEAST) + _PRICES.wake_usd


def test_without_experience_a_member_stays_for_what_a_wake_costs() -> None:
    assert KeepAlive.initial(_PRICES).limit_ms() == _PRICES.break_even_ms == 30


@pytest.mark.parametrize("mean_ms", [1, 10, 30, 1_000, 100_000])
def test_random_arrivals_cost_little_more_than_the_least_that_a_fixed_limit_can(mean_ms: float) -> None:
    chance = random.Random(1)
    gaps_ms = [chance.expovariate(1 / mean_ms) for _ in range(1_000)]

    paid, _ = paid_and_least(gaps_ms)

    best = min(sum(gaps_ms), len(gaps_ms) * _PRICES.wake_usd)  # always there, or never: no limit between is better
    assert paid <= 1.06 * best


def test_bursts_are_waited_out_and_what_lies_between_them_is_not() -> None:
    gaps_ms = ([2.0] * 20 + [60_000.0]) * 40

    paid, least = paid_and_least(gaps_ms)

    assert paid <= 1.07 * least


def test_a_member_follows_when_arrivals_change() -> None:
    stay = KeepAlive.initial(_PRICES)
    for gap_ms in [5.0] * 300 + [10_000.0] * (2 * GAPS):
        stay = stay.after(gap_ms, stay.limit_ms())

    assert stay.limit_ms() == 0


def test_the_best_limit_is_the_longest_gap_that_is_worth_waiting_for() -> None:
    assert best_limit_ms([], _PRICES) == 0
    assert best_limit_ms([5, 5, 5], _PRICES) == 5
    assert best_limit_ms([5, 5, 5, 5, 40], _PRICES) == 5
    assert best_limit_ms([1_000, 2_000], _PRICES) == 0


def test_a_longer_past_is_no_reason_for_a_longer_mistake() -> None:
    stay = KeepAlive.initial(_PRICES)
    for _ in range(1_000):
        stay = stay.after(20.0, stay.limit_ms())

    assert stay.credit_usd <= 8 * _PRICES.wake_usd
    assert len(stay.gaps_ms) == GAPS


def test_todays_prices_have_a_member_stay_some_tens_of_milliseconds() -> None:
    sheet = price_sheet("today-us-east-1")
    stays_ms = [
        keep_alive_prices(sheet, memory_mb=memory_mb, wait_usd=Fraction(10, 1_000_000)).break_even_ms
        for memory_mb in (512, 1_769, 10_240)
    ]

    assert stays_ms == sorted(stays_ms, reverse=True)
    assert [round(stay_ms) for stay_ms in stays_ms] == [120, 45, 20]
