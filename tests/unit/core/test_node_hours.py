"""Node hours: a node's time on a day, and the end of its allowance."""

from __future__ import annotations

import pytest

from burstcache.core.node_hours import HOUR_US, day_of, next_day_us, used_up_at_us, used_us

_MIDNIGHT_US = next_day_us(1_800_000_000_000_000)
_TODAY = day_of(_MIDNIGHT_US)


def at(hour: float) -> int:
    return _MIDNIGHT_US + round(hour * HOUR_US)


@pytest.mark.parametrize(
    ("counted_h", "on_day", "since_h", "hours"),
    [
        (0, _TODAY, 8, 2),
        (3, _TODAY, 8, 5),  # an earlier run of today
        (3, _TODAY - 1, 8, 2),  # of yesterday
        (3, _TODAY - 1, -2, 10),  # the run began yesterday
    ],
)
def test_what_a_node_has_run_today(counted_h: int, on_day: int, since_h: int, hours: int) -> None:
    used = used_us(counted_h * HOUR_US, on_day=on_day, since_us=at(since_h), now_us=at(10))

    assert used == hours * HOUR_US


@pytest.mark.parametrize(
    ("used_h", "now_h", "until_h"),
    [
        (0, 10, 14),
        (3, 10, 11),
        (4, 10, 10),
        (9, 10, 10),
        (0, 23, 28),  # the hours of tomorrow
        (3, 23, 28),  # midnight comes first
        (2.5, 22, 23.5),
    ],
)
def test_when_its_hours_are_used_up(used_h: float, now_h: float, until_h: float) -> None:
    used_up_us = used_up_at_us(round(used_h * HOUR_US), most_us=4 * HOUR_US, now_us=at(now_h))

    assert used_up_us == at(until_h)
