"""The hazard policy: its beliefs after gaps, and its decisions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import exp, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.breakeven import THESIS_PRICES, BreakevenPrices
from burstcache.core.errors import InvalidSettingError
from burstcache.core.hazard import (
    LONGEST_IDLE_US,
    RATES_PER_S,
    TUNED,
    Belief,
    ExpectedBenefit,
    HazardParameters,
    first_belief,
    hazard,
    learn,
    pays,
    pays_until_us,
)
from burstcache.core.parameters import US_PER_S

S = US_PER_S
USUAL = hazard(Fraction("1e-4"))
NEVER = ExpectedBenefit(gains=(0.0,) * len(RATES_PER_S), losses=(1.0,) * len(RATES_PER_S))
GAPS_US = st.lists(st.one_of(st.integers(0, 100 * S), st.integers(0, 10**13)), max_size=30)


def believed(gaps_us: list[int], parameters: HazardParameters = USUAL) -> Belief:
    """Return the belief after a first request and these gaps."""
    return reduce(lambda belief, gap_us: learn(belief, gap_us, parameters), gaps_us, first_belief(parameters))


def mean_rate_per_s(belief: Belief) -> float:
    return sum(weight * rate for weight, rate in zip(belief.weights, RATES_PER_S, strict=True))


def test_the_first_belief_has_all_rates_and_slow_ones_more() -> None:
    weights = first_belief(USUAL).weights

    assert isclose(sum(weights), 1)
    assert list(weights) == sorted(weights, reverse=True)
    assert weights[-1] > 0


@given(GAPS_US)
def test_weights_are_chances_and_counts_are_gaps(gaps_us: list[int]) -> None:
    belief = believed(gaps_us)

    assert isclose(sum(belief.weights), 1)
    assert all(0 < weight < 1 for weight in belief.weights)
    assert isclose(sum(belief.counts), TUNED.prior_gaps + len(gaps_us))
    assert belief.gaps == len(gaps_us)


@pytest.mark.parametrize("gap_us", [0, 1, 3 * S, 3_600 * S])
def test_without_switches_a_gap_is_weighed_by_bayes_rule(gap_us: int) -> None:
    belief = believed([gap_us], hazard(Fraction("1e-4"), constants=replace(TUNED, switch=0.0)))

    likely = [prior * rate * exp(-rate * gap_us / S) for prior, rate in zip(USUAL.prior, RATES_PER_S, strict=True)]
    expected = [value / sum(likely) for value in likely]
    assert belief.weights == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_a_gap_beyond_the_longest_counts_as_the_longest() -> None:
    assert believed([LONGEST_IDLE_US + 1]) == believed([LONGEST_IDLE_US]) != believed([LONGEST_IDLE_US - 10**9])


def test_regular_requests_teach_their_rate_and_one_odd_gap_does_not_unteach_it() -> None:
    regular = believed([15 * S] * 200)

    odd = learn(regular, 0, USUAL)

    assert 0.5 / 15 < mean_rate_per_s(regular) < 2 / 15
    assert mean_rate_per_s(believed([0])) > 10 * mean_rate_per_s(odd)


def test_gains_equal_to_losses_pay() -> None:
    belief = first_belief(USUAL)
    even = tuple(0.25 for _ in RATES_PER_S)

    assert pays(belief, ExpectedBenefit(even, even))
    assert not pays(belief, ExpectedBenefit(even, tuple(0.2500001 for _ in RATES_PER_S)))


@given(GAPS_US, st.fractions(Fraction(1, 10**6), Fraction(1, 20)))
def test_what_pays_ends_at_the_first_microsecond_at_which_it_no_longer_does(
    gaps_us: list[int], hit_value_usd: Fraction
) -> None:
    parameters = hazard(hit_value_usd)
    belief = believed(gaps_us, parameters)

    for worth in (parameters.stay, parameters.invoke, parameters.bridge):
        until_us = pays_until_us(belief, worth)
        assert until_us == 1 or pays(belief, worth, idle_us=until_us - 1)
        assert until_us == LONGEST_IDLE_US or not pays(belief, worth, idle_us=until_us)


def test_what_never_pays_ends_after_a_microsecond_and_what_always_pays_after_the_longest_idle_time() -> None:
    belief = first_belief(USUAL)

    assert pays_until_us(belief, NEVER) == 1
    assert pays_until_us(belief, ExpectedBenefit(NEVER.losses, NEVER.gains)) == LONGEST_IDLE_US


@given(GAPS_US, st.fractions(Fraction(1, 10**6), Fraction(1, 100)))
def test_a_dearer_hit_never_makes_the_policy_meaner(gaps_us: list[int], hit_value_usd: Fraction) -> None:
    belief = believed(gaps_us)
    one, double = hazard(hit_value_usd), hazard(2 * hit_value_usd)

    assert pays(belief, double.boot) >= pays(belief, one.boot)
    for name in ("stay", "invoke", "bridge"):
        assert pays_until_us(belief, getattr(double, name)) >= pays_until_us(belief, getattr(one, name))


def test_dearer_prices_shorten_what_idles() -> None:
    belief = believed([S] * 20)
    dear = BreakevenPrices(THESIS_PRICES.lambda_usd_per_s * 2, THESIS_PRICES.redis_usd_per_s * 2)

    parameters = hazard(Fraction("1e-4"), dear)

    assert 1 < pays_until_us(belief, parameters.stay) < pays_until_us(belief, USUAL.stay)
    assert pays_until_us(belief, parameters.invoke) < pays_until_us(belief, USUAL.invoke)


def test_a_hit_worth_a_minimum_run_boots_redis_at_the_first_request_and_a_cheap_one_does_not() -> None:
    assert pays(first_belief(USUAL), hazard(Fraction("3e-4")).boot)
    assert not pays(first_belief(USUAL), hazard(Fraction("1e-6")).boot)


def test_redis_outlives_a_steady_key_whose_rate_pays_and_leaves_one_whose_rate_does_not() -> None:
    stay = hazard(Fraction("1e-4")).stay  # a hit pays for 27 s

    assert pays_until_us(believed([5 * S] * 50), stay) > 40 * S
    assert pays_until_us(believed([3_600 * S] * 50), stay) < S


@pytest.mark.parametrize("hit_value_usd", ["0", "-1e-4"])
def test_a_hit_that_is_worth_nothing_is_refused(hit_value_usd: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"hit value -?[\d.e-]+ USD: expected an amount above 0"):
        hazard(Fraction(hit_value_usd))
