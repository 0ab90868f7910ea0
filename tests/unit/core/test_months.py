"""The month that AWS bills."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from burstcache.core.months import month_end_us


def _us(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("at", "end"),
    [
        ("2026-11-22T07:45:00", "2026-12-01"),
        ("2026-12-31T23:59:59", "2027-01-01"),
        ("2028-02-29T12:00:00", "2028-03-01"),
        ("2026-12-01T00:00:00", "2027-01-01"),
    ],
)
def test_a_month_ends_with_the_first_instant_of_the_next_one(at: str, end: str) -> None:
    assert month_end_us(_us(at)) == _us(end)
