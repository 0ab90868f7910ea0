"""How long a node may run on one day, and how long it has. Days are those of UTC; a run may begin on the day before."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S

DAY_HOURS = 24
HOUR_US = 3600 * US_PER_S
_DAY_US = DAY_HOURS * HOUR_US


def day_of(at_us: int) -> int:
    """Return the number of the day of an instant, since the epoch."""
    return at_us // _DAY_US


def next_day_us(at_us: int) -> int:
    """Return when the day after an instant begins [us]."""
    return (day_of(at_us) + 1) * _DAY_US


def used_us(counted_us: int, *, on_day: int, since_us: int, now_us: int) -> int:
    """Return how long a node has run today [us].

    Args:
        counted_us: What its former runs took on the day `on_day` [us].
        on_day: The day of the end of the last of them.
        since_us: When the present run began [us].
        now_us: The present [us].
    """
    today = day_of(now_us)
    former_us = counted_us if on_day == today else 0
    return former_us + now_us - max(since_us, today * _DAY_US)


def used_up_at_us(used_today_us: int, *, most_us: int, now_us: int) -> int:
    """Return when a node that runs on will have run for `most_us` on one day [us]; `now_us` if it has."""
    at_us = now_us + max(most_us - used_today_us, 0)
    midnight_us = next_day_us(now_us)
    return at_us if at_us < midnight_us else midnight_us + most_us
