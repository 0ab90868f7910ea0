"""Times, durations and tables as people read them."""

from __future__ import annotations

import pytest

from burstcache_terminal.text import (
    count_text,
    duration_text,
    each_usd_text,
    fixed_text,
    footnotes,
    number_text,
    shown_text,
    table_text,
    time_text,
    usd_text,
    wrapped_text,
)


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (999.96, "1,000"),
        (12_345.6, "12,346"),
        (1.2346e-7, "0.0000001235"),
        (0, "0"),
        (-4.5, "-4.5"),
    ],
)
def test_number_has_no_needless_digits_and_no_exponent(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.004, "<0.01"), (0.006, "0.01"), (0, "0.00"), (1_234.5, "1,234.50")])
def test_what_is_above_zero_is_not_shown_as_zero(value: float, text: str) -> None:
    assert fixed_text(value, 2) == text


@pytest.mark.parametrize(("value", "text"), [(0.25, "0.25"), (-1_187.31, "-1,187"), (0.001, "<0.01"), (0, "0.00")])
def test_cents_are_printed_below_a_thousand(value: float, text: str) -> None:
    assert usd_text(value) == text


@pytest.mark.parametrize(
    ("value_usd", "text"),
    [(1.25e-5, "12.5 USD per million"), (4.07e-3, "4,070 USD per million"), (3_460, "3,460 USD"), (0.5, "0.5 USD")],
)
def test_what_one_of_many_is_worth_reads_like_a_price_list(value_usd: float, text: str) -> None:
    assert each_usd_text(value_usd) == text


def test_notes_stand_below_their_table_and_the_same_note_only_once() -> None:
    marks, lines = footnotes(["always on", "", "from 1 GB", "always on"])

    assert marks == [" [1]", "", " [2]", " [1]"]
    assert lines == ["[1] always on", "[2] from 1 GB"]


def test_text_is_wrapped_at_eighty_characters_but_words_are_whole() -> None:
    found = wrapped_text(f"{'word ' * 20}{'x' * 100}", indent="  ").splitlines()

    assert max(map(len, found[:-1])) <= 80
    assert found[-1] == f"  {'x' * 100}"


def test_widest_text_goes_on_in_further_lines_where_a_table_must_fit() -> None:
    rows = [("tick_s=1,window=3,threshold_s=12", "9"), ("a/key/without/any/place/to/break", "10")]

    assert table_text(("parameters", "n"), rows, right={1}, most=24) == (
        "parameters             n\ntick_s=1,window=3,     9\nthreshold_s=12\na/key/without/any/pl  10\nace/to/break"
    )


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    name = "a\x1b]0;owned\x07\n\u202etxt \u00e9 \U0001f600"

    assert shown_text(name) == "a\\x1b]0;owned\\x07\\n\\u202etxt \u00e9 \U0001f600"
    assert table_text(("KEY", "TIER"), [(name, "s3")]).splitlines()[1] == f"{shown_text(name)}  s3"
