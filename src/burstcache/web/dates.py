"""HTTP dates."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def parse_http_date(text: str) -> datetime | None:
    """Return the instant of an HTTP date in UTC, or None: RFC 9110 ignores invalid dates in conditions."""
    try:
        parsed = parsedate_to_datetime(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
