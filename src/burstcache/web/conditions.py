"""Conditional requests (RFC 9110, section 13) about a cached object, decided as S3 decides them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from burstcache.web.dates import parse_http_date

PRECONDITION_FAILED = 412
NOT_MODIFIED = 304
# A tag in quotes, perhaps weak, or a bare one, which S3 takes as well.
_TAG = re.compile(r'\s*(?:(W/)?"([^"]*)"|([^\s",]+))\s*(?:,|$)')


def failed_condition(headers: Mapping[str, str], *, etag: str, last_modified: str) -> int | None:
    """Return the status with which a condition ends a GET or HEAD: 412, 304, or None if none does.

    Args:
        headers: The client's, names in lower case.
        etag: The object's, as S3 gave it.
        last_modified: Likewise; an HTTP date.

    Source:
        RFC 9110, section 13.2.2: an entity tag decides before a date does.
    """
    if if_match := headers.get("if-match"):
        if not _lists(if_match, etag, weakly=False):
            return PRECONDITION_FAILED
    elif _is_later(last_modified, headers.get("if-unmodified-since", "")) is True:
        return PRECONDITION_FAILED
    if if_none_match := headers.get("if-none-match"):
        return NOT_MODIFIED if _lists(if_none_match, etag, weakly=True) else None
    return NOT_MODIFIED if _is_later(last_modified, headers.get("if-modified-since", "")) is False else None


def range_applies(headers: Mapping[str, str], *, etag: str, last_modified: str) -> bool:
    """True if If-Range is absent or names this version of the object; otherwise Range must be ignored (13.1.5)."""
    if not (if_range := headers.get("if-range", "").strip()):
        return True
    if (date := parse_http_date(if_range)) is not None:
        return date == parse_http_date(last_modified)
    return if_range != "*" and _lists(if_range, etag, weakly=False)


def _lists(condition: str, etag: str, *, weakly: bool) -> bool:
    if condition.strip() == "*":
        return True
    tags = (match.groups() for match in _TAG.finditer(condition))
    return any((quoted or bare) == etag.strip('"') and (weakly or not weak) for weak, quoted, bare in tags)


def _is_later(last_modified: str, condition: str) -> bool | None:
    """Whether the object was modified after the condition's date; None if either date is missing or invalid."""
    if not condition:  # as nearly always: two dates take longer to parse than all else takes
        return None
    asked, modified = parse_http_date(condition), parse_http_date(last_modified)
    return None if asked is None or modified is None else modified > asked
