"""HTTP dates."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

_DAYS, _MONTHS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun", "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_TIME = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
# RFC 9110, section 5.6.7: the form that is sent, and the two obsolete ones that a recipient must take.
_HTTP_DATE = re.compile(
    rf"(?:{_DAYS}), [0-9]{{2}} (?:{_MONTHS}) [0-9]{{4}} {_TIME} GMT"
    rf"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [0-9]{{2}}-(?:{_MONTHS})-[0-9]{{2}} {_TIME} GMT"
    rf"|(?:{_DAYS}) (?:{_MONTHS}) [ 0-9][0-9] {_TIME} [0-9]{{4}}"
)


def parse_http_date(text: str) -> datetime | None:
    """Return the instant of an HTTP date in UTC, or None: RFC 9110 ignores in conditions what is none."""
    if not _HTTP_DATE.fullmatch(text):
        return None
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # such as the 31st of February
        return None


def is_sent_date(text: str) -> bool:
    """Whether a text is an HTTP date in the one form that is still sent, the day of the week included."""
    date = parse_http_date(text)
    return date is not None and format_datetime(date, usegmt=True) == text
