"""The configurator gives the thesis's table 5.1; single values can be set; what is not accepted is named."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S, Parameters, configure, parameters_from_text
from burstcache_sim.thesis.published import TABLE_5_1


def times_s(parameters: Parameters) -> tuple[float, ...]:
    times_us = (parameters.tick_us, parameters.lambda_threshold_us, parameters.redis_utilization_us)
    return tuple(time_us / US_PER_S for time_us in times_us)


@pytest.mark.parametrize(("given_", "expected_s"), TABLE_5_1.items(), ids=str)
def test_configurator_gives_each_row_of_table_5_1(given_: tuple[int, int], expected_s: tuple[int, int, int]) -> None:
    parameters = configure(*map(Fraction, given_))

    assert times_s(parameters) == expected_s
    assert (parameters.lambda_window_elements, parameters.redis_threshold) == (2, 4)


def test_lambda_threshold_derives_from_the_tick_before_its_truncation() -> None:
    parameters = configure(Fraction(9), Fraction(2))

    assert times_s(parameters) == (2, 5, 46)


def test_configurator_leaves_the_minute_check_and_the_two_minutes_of_keep_running() -> None:
    parameters = configure(Fraction(9), Fraction(4))

    assert (parameters.redis_check_us, parameters.keep_running_us) == (60_000_000, 120_000_000)


def test_rate_and_sensitivity_are_read_as_exact_decimals() -> None:
    parameters = parameters_from_text(rate="0.1", sensitivity="0.5")

    assert times_s(parameters) == (60, 120, 3300)


@pytest.mark.parametrize(
    ("rate", "sensitivity", "reason"),
    [
        ("0", "4", "rate 0: expected a number of requests per minute above 0"),
        ("-3", "4", "rate -3: expected a number of requests per minute above 0"),
        ("9", "0", "sensitivity 0: expected a number above 0 and up to 5"),
        ("9", "5.01", r"sensitivity 5\.01: expected a number above 0 and up to 5"),
        ("fast", "4", "rate 'fast': expected a decimal number such as 9 or 0.5"),
        ("1/3", "4", "rate '1/3': expected a decimal number"),
        ("9", "", "sensitivity '': expected a decimal number"),
        ("nan", "4", "rate 'nan': expected a decimal number"),
        ("inf", "4", "rate 'inf': expected a decimal number"),
        ("24.1", "2", "rate 24.1 with sensitivity 2 makes TICK 0.99.* s; .* use a rate of at most 24"),
    ],
)
def test_configurator_refuses_with_the_value_and_what_is_accepted(rate: str, sensitivity: str, reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason):
        parameters_from_text(rate=rate, sensitivity=sensitivity)


def test_the_rate_that_the_refusal_names_is_accepted() -> None:
    parameters = parameters_from_text(rate="24", sensitivity="2")

    assert times_s(parameters) == (1, 2, 17)


def test_sensitivity_5_is_accepted() -> None:
    parameters = parameters_from_text(rate="9", sensitivity="5")

    assert times_s(parameters) == (6, 13, 66)


def test_overrides_replace_single_values_and_leave_the_others() -> None:
    parameters = parameters_from_text(rate="9", sensitivity="4", overrides="tick_s=0.25, redis_threshold = 7 ,")

    assert parameters == Parameters(
        tick_us=250_000,
        lambda_window_elements=2,
        lambda_threshold_us=10_000_000,
        redis_threshold=7,
        redis_utilization_us=60_000_000,
    )


def test_every_parameter_can_be_overridden() -> None:
    overrides = (
        "tick_s=1,lambda_window_elements=3,lambda_threshold_s=2,redis_threshold=0,redis_utilization_s=3,"
        "redis_check_s=4,keep_running_s=5"
    )

    parameters = parameters_from_text(rate="9", sensitivity="4", overrides=overrides)

    assert parameters == Parameters(1_000_000, 3, 2_000_000, 0, 3_000_000, 4_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("tick_s", "policy override 'tick_s': expected name=value with a name of tick_s, lambda_window_elements"),
        ("tock_s=1", "policy override 'tock_s=1': expected name=value with a name of"),
        ("tick_us=1", "policy override 'tick_us=1': expected name=value with a name of"),
        ("tick_s=0", "policy override tick_s=0: expected a time above 0 s"),
        ("tick_s=-1", "policy override tick_s=-1: expected a time above 0 s"),
        ("tick_s=soon", "tick_s 'soon': expected a decimal number"),
        ("redis_threshold=-1", "policy override redis_threshold=-1: expected a whole number of at least 0"),
        ("redis_threshold=1.5", r"policy override redis_threshold=1\.5: expected a whole number of at least 0"),
        ("lambda_window_elements=1", "policy override lambda_window_elements=1: expected a whole number of at least 2"),
    ],
)
def test_overrides_are_refused_with_the_value_and_what_is_accepted(override: str, reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason):
        parameters_from_text(rate="9", sensitivity="4", overrides=override)


def test_window_holds_the_queue_of_five_and_enough_for_either_threshold() -> None:
    def length(overrides: str) -> int:
        return parameters_from_text(rate="9", sensitivity="4", overrides=overrides).window_length

    assert length("redis_threshold=0") == 5
    assert length("redis_threshold=4") == 6  # the trigger and the five that exceed four
    assert length("lambda_window_elements=9") == 10
    assert length("redis_threshold=20") == 22


@given(
    rate=st.fractions(min_value=Fraction(1, 100), max_value=100, max_denominator=100),
    sensitivity=st.fractions(min_value=Fraction(1, 100), max_value=5, max_denominator=100),
)
def test_configured_times_are_whole_seconds_and_the_threshold_is_at_least_two_ticks(
    rate: Fraction, sensitivity: Fraction
) -> None:
    try:
        parameters = configure(rate, sensitivity)
    except InvalidSettingError:
        assert 60 / rate * sensitivity / 5 < 1
        return

    assert all(time_s >= 1 and time_s == int(time_s) for time_s in times_s(parameters))
    assert parameters.lambda_threshold_us >= 2 * parameters.tick_us
