"""HTTP dates, as used in headers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache

_DAYS, _MONTHS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun", "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_TIME = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
# RFC 9110, section 5.6.7: the current format, and two obsolete formats that recipients must accept.
_HTTP_DATE = re.compile(
    rf"(?:{_DAYS}), [0-9]{{2}} (?:{_MONTHS}) [0-9]{{4}} {_TIME} GMT"
    rf"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [0-9]{{2}}-(?:{_MONTHS})-[0-9]{{2}} {_TIME} GMT"
    rf"|(?:{_DAYS}) (?:{_MONTHS}) [ 0-9][0-9] {_TIME} [0-9]{{4}}"
)


def parse_http_date(text: str) -> datetime | None:
    """Parse an HTTP date in UTC. Return None if it is malformed, since conditions ignore such dates (RFC 9110)."""
    return _parse(text) if _HTTP_DATE.fullmatch(text) else None


@lru_cache(1024)  # hits have the same few dates
def timestamp_s(text: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date, or None if it is malformed."""
    date = parse_http_date(text)
    return None if date is None else date.timestamp()


@lru_cache(1024)  # hits have the same few dates, and Python reads years of two digits as 1969 to 2068 in any year
def _parse(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # such as 31 February
        return None


def is_sent_date(text: str) -> bool:
    """Return True if the text is an HTTP date in the current format, with the correct day of the week."""
    date = parse_http_date(text)
    return date is not None and format_datetime(date, usegmt=True) == text
