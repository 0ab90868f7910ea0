"""Conditions of requests for a cached object (RFC 9110, section 13), evaluated as S3 evaluates them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

from burstcache.core.parameters import US_PER_S
from burstcache.web.dates import parse_http_date

PRECONDITION_FAILED = 412
NOT_MODIFIED = 304
# Any empty elements, then a tag, which is quoted and possibly weak, or unquoted (S3 also accepts unquoted tags).
# Possessive quantifiers prevent backtracking, so matching takes linear time.
_TAG = re.compile(r'[\s,]*+(?:(W/)?"([^"]*+)"|([^\s",]++))\s*+(?:,|$)')


def failed_condition(headers: Mapping[str, str], *, etag: str, last_modified: str, at_us: int) -> int | None:
    """Return 412 or 304 for a GET or HEAD that fails a condition, or None if the request proceeds.

    Args:
        headers: Headers of the request, names in lower case.
        etag: The object's ETag, as sent by S3.
        last_modified: The object's Last-Modified, as sent by S3.
        at_us: Time of the request [us since 1970]. S3 ignores a later If-Modified-Since
            (recorded by LocalStack, s3_get_object_preconditions).

    Source:
        RFC 9110, section 13.2.2: entity tags take precedence over dates.
    """
    if not headers:  # most hits
        return None
    if if_match := headers.get("if-match"):
        if not _lists(if_match, etag, weakly=False):
            return PRECONDITION_FAILED
    elif _is_later(last_modified, headers.get("if-unmodified-since", "")) is True:
        return PRECONDITION_FAILED
    if if_none_match := headers.get("if-none-match"):
        return NOT_MODIFIED if _lists(if_none_match, etag, weakly=True) else None
    since = headers.get("if-modified-since", "")
    is_unchanged = _is_later(last_modified, since) is False and (since == last_modified or not _is_future(since, at_us))
    return NOT_MODIFIED if is_unchanged else None


class PassedOn(TypedDict, total=False):
    """Non-empty conditions to forward to S3."""

    if_match: str
    if_none_match: str
    if_modified_since: str
    if_unmodified_since: str


def passed_on(headers: Mapping[str, str], *, at_us: int) -> PassedOn:
    """Return the conditions to forward to S3, so that S3 sends no unneeded bodies.

    S3 evaluates them as `failed_condition` does. Lists, `*` and weak tags are undocumented for S3, so they are
    evaluated on its response instead. Dates are omitted if a tag takes precedence (RFC 9110, section 13.1.3).

    Args:
        headers: Headers of the request, names in lower case.
        at_us: Time of the request [us since 1970].
    """
    passed = PassedOn()
    if if_match := headers.get("if-match"):
        if tag := _one_tag(if_match, weakly=False):
            passed["if_match"] = tag
        elif if_match.strip() != "*":
            return passed  # If-Match takes precedence, but S3 would respond 304 to the other conditions
    elif unmodified_since := headers.get("if-unmodified-since"):
        passed["if_unmodified_since"] = unmodified_since
    if if_none_match := headers.get("if-none-match"):
        if tag := _one_tag(if_none_match, weakly=True):
            passed["if_none_match"] = tag
    elif (since := headers.get("if-modified-since")) and not _is_future(since, at_us):
        passed["if_modified_since"] = since
    return passed


def range_applies(headers: Mapping[str, str], *, etag: str, last_modified: str) -> bool:
    """Return True if If-Range is absent or matches this version. Otherwise Range must be ignored (13.1.5)."""
    if not (if_range := headers.get("if-range", "").strip()):
        return True
    if (date := parse_http_date(if_range)) is not None:
        return date == parse_http_date(last_modified)
    return if_range != "*" and _lists(if_range, etag, weakly=False)


def _lists(condition: str, etag: str, *, weakly: bool) -> bool:
    if condition.strip() == "*":
        return True
    return any(tag == etag.strip('"') and (weakly or not is_weak) for tag, is_weak in _tags(condition))


def _tags(condition: str) -> Iterator[tuple[str, bool]]:
    """Yield each tag of a list without quotes, and whether the tag is weak. Stop at the first malformed tag."""
    start = 0
    while match := _TAG.match(condition, start):
        weak, quoted, bare = match.groups()
        yield quoted or bare, bool(weak)
        start = match.end()


def _one_tag(condition: str, *, weakly: bool) -> str:
    """Return a condition's only tag, quoted. Return "" for no or several tags, or a weak tag that cannot match."""
    if condition.strip() == "*" or not (match := _TAG.fullmatch(condition.rstrip())):
        return ""
    weak, quoted, bare = match.groups()
    return f'"{bare or quoted}"' if weakly or not weak else ""


def _is_later(last_modified: str, condition: str) -> bool | None:
    """Return whether the object is newer than the condition's date, or None if a date is missing or invalid."""
    if not condition:  # the common case: parsing two dates would take longer than the rest of this module
        return None
    limit, modified = parse_http_date(condition), parse_http_date(last_modified)
    return None if limit is None or modified is None else modified > limit


def _is_future(condition: str, at_us: int) -> bool:
    """Return True if a condition's date is later than the request."""
    date = parse_http_date(condition)
    return date is not None and date.timestamp() * US_PER_S > at_us
