"""Times, durations and tables as people read them."""

from __future__ import annotations

import pytest

from burstcache_terminal.text import count_text, duration_text, number_text, small_usd_text, table_text, time_text


def test_time_is_in_utc_with_milliseconds_on_demand() -> None:
    at_us = 1_785_542_400_987_654

    assert time_text(at_us) == "2026-08-01T00:00:00Z"
    assert time_text(at_us, with_ms=True) == "2026-08-01T00:00:00.987Z"


def test_time_that_is_not_known_is_a_dash() -> None:
    assert time_text(0) == "-"


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0, "0 s"),
        (8.243, "8.24 s"),
        (30, "30 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (200.4, "3 min 20 s"),
        (3600, "1 h"),
        (7_500, "2 h 5 min"),
        (86_400, "1 d"),
        (86_400 * 3 + 7_200, "3 d 2 h"),
    ],
)
def test_duration_has_its_two_largest_units_and_no_zero(duration_s: float, text: str) -> None:
    assert duration_text(duration_s) == text


def test_table_aligns_columns_and_ends_lines_without_blanks() -> None:
    rows = [("a", "9", "lambda"), ("long/key", "10", "s3")]

    assert table_text(("KEY", "N", "TIER"), rows, right={1}) == (
        "KEY        N  TIER\na          9  lambda\nlong/key  10  s3"
    )


@pytest.mark.parametrize(("number", "text"), [(1, "1 key"), (0, "0 keys"), (2_000, "2,000 keys")])
def test_count_has_the_plural_that_it_needs(number: int, text: str) -> None:
    assert count_text(number, "key") == text


@pytest.mark.parametrize(("value", "text"), [(0.123456, "0.1235"), (999.96, "1000"), (12_345.6, "12,346")])
def test_number_has_no_needless_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_small_amount_is_given_per_one_and_per_million() -> None:
    assert small_usd_text(1.25e-5) == "1.25e-05 USD (12.5 per million)"
