"""Node hours: how long a node has run today, and may still run. Days are in UTC. A run may span midnight."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S

DAY_HOURS = 24
HOUR_US = 3600 * US_PER_S
_DAY_US = DAY_HOURS * HOUR_US


def day_of(at_us: int) -> int:
    """Return the day of an instant, counted from the epoch."""
    return at_us // _DAY_US


def next_day_us(at_us: int) -> int:
    """Return the start of the day after an instant [us]."""
    return (day_of(at_us) + 1) * _DAY_US


def used_us(counted_us: int, *, on_day: int, since_us: int, now_us: int) -> int:
    """Return the time that a node has run today [us].

    Args:
        counted_us: Running time of earlier runs on the day `on_day` [us].
        on_day: Day on which the last of these runs ended.
        since_us: Start of the current run [us].
        now_us: Current time [us].
    """
    today = day_of(now_us)
    former_us = counted_us if on_day == today else 0
    return former_us + now_us - max(since_us, today * _DAY_US)


def used_up_at_us(used_today_us: int, *, most_us: int, now_us: int) -> int:
    """Return the time at which a running node reaches its daily limit `most_us`, or `now_us` if it already has [us]."""
    at_us = now_us + max(most_us - used_today_us, 0)
    midnight_us = next_day_us(now_us)
    return at_us if at_us < midnight_us else midnight_us + most_us
