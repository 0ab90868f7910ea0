"""The calendar months in UTC by which AWS bills."""

from __future__ import annotations

from datetime import UTC, datetime

from burstcache.core.parameters import US_PER_S


def month_end_us(at_us: int) -> int:
    """Return the end of the month that contains an instant [us]."""
    at = datetime.fromtimestamp(at_us // US_PER_S, UTC)
    first = at.replace(day=1, hour=0, minute=0, second=0)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return int(following.timestamp()) * US_PER_S
