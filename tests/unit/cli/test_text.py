"""Times, durations and tables as people read them."""

from __future__ import annotations

import pytest

from burstcache_cli.text import duration_text, table_text, time_text


def test_time_is_in_utc_with_milliseconds_on_demand() -> None:
    at_us = 1_785_542_400_987_654

    assert time_text(at_us) == "2026-08-01T00:00:00Z"
    assert time_text(at_us, with_ms=True) == "2026-08-01T00:00:00.987Z"


def test_time_that_is_not_known_is_a_dash() -> None:
    assert time_text(0) == "-"


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0, "0.0 s"),
        (8.24, "8.2 s"),
        (59.9, "59.9 s"),
        (60, "1 m 0 s"),
        (200.9, "3 m 20 s"),
        (3600, "1 h 0 m"),
        (7_500, "2 h 5 m"),
        (86_400 * 3 + 7_200, "3 d 2 h"),
    ],
)
def test_duration_is_told_in_its_two_largest_units(duration_s: float, text: str) -> None:
    assert duration_text(round(duration_s * 1_000_000)) == text


def test_table_aligns_columns_and_ends_lines_without_blanks() -> None:
    assert table_text(("KEY", "TIER"), [("a", "lambda"), ("long/key", "s3")]) == (
        "KEY       TIER\na         lambda\nlong/key  s3"
    )
