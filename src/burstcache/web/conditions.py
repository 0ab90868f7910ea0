"""Conditional requests (RFC 9110, section 13) about a cached object, decided as S3 decides them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypedDict

from burstcache.core.parameters import US_PER_S
from burstcache.web.dates import parse_http_date

PRECONDITION_FAILED = 412
NOT_MODIFIED = 304
# A tag in quotes, perhaps weak, or a bare one, which S3 takes as well; empty elements before it do not count. Nothing
# that has matched is given back, so that a client's header costs no more than its length.
_TAG = re.compile(r'[\s,]*+(?:(W/)?"([^"]*+)"|([^\s",]++))\s*+(?:,|$)')


def failed_condition(headers: Mapping[str, str], *, etag: str, last_modified: str, at_us: int) -> int | None:
    """Return the status with which a condition ends a GET or HEAD: 412, 304, or None if none does.

    Args:
        headers: The client's, names in lower case.
        etag: The object's, as S3 gave it.
        last_modified: Likewise; an HTTP date.
        at_us: When the request came [us since 1970]: S3 ignores an If-Modified-Since that is later
            (recorded by LocalStack, s3_get_object_preconditions).

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
    since = headers.get("if-modified-since", "")
    is_unchanged = _is_later(last_modified, since) is False and (
        since == last_modified or not _is_to_come(since, at_us)
    )
    return NOT_MODIFIED if is_unchanged else None


class PassedOn(TypedDict, total=False):
    """Conditions that S3 decides, none of them empty."""

    if_match: str
    if_none_match: str
    if_modified_since: str
    if_unmodified_since: str


def passed_on(headers: Mapping[str, str], *, at_us: int) -> PassedOn:
    """Return those of a request's conditions that S3 is asked with, so that it need not send what nobody wants.

    S3 decides these as `failed_condition` does. Lists, `*` and weak tags it does not document: what they decide is
    decided on its answer. Where a tag decides, dates are left out (RFC 9110, section 13.1.3).

    Args:
        headers: The client's, names in lower case.
        at_us: When the request came [us since 1970].
    """
    passed = PassedOn()
    if if_match := headers.get("if-match"):
        if tag := _one_tag(if_match, weakly=False):
            passed["if_match"] = tag
        elif if_match.strip() != "*":
            return passed  # S3 would say that the object is unchanged where this comes first
    elif unmodified_since := headers.get("if-unmodified-since"):
        passed["if_unmodified_since"] = unmodified_since
    if if_none_match := headers.get("if-none-match"):
        if tag := _one_tag(if_none_match, weakly=True):
            passed["if_none_match"] = tag
    elif (since := headers.get("if-modified-since")) and not _is_to_come(since, at_us):
        passed["if_modified_since"] = since
    return passed


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
    return any(tag == etag.strip('"') and (weakly or not is_weak) for tag, is_weak in _tags(condition))


def _tags(condition: str) -> Iterator[tuple[str, bool]]:
    """Yield the tags of a list without their quotes, and whether each is weak, up to what is none."""
    start = 0
    while match := _TAG.match(condition, start):
        weak, quoted, bare = match.groups()
        yield quoted or bare, bool(weak)
        start = match.end()


def _one_tag(condition: str, *, weakly: bool) -> str:
    """Return the only tag of a condition in quotes; empty if it has another number of them, or a weak one in vain."""
    if condition.strip() == "*" or not (match := _TAG.fullmatch(condition.rstrip())):
        return ""
    weak, quoted, bare = match.groups()
    return f'"{bare or quoted}"' if weakly or not weak else ""


def _is_later(last_modified: str, condition: str) -> bool | None:
    """Whether the object was modified after the condition's date; None if either date is missing or invalid."""
    if not condition:  # as nearly always: two dates take longer to parse than all else takes
        return None
    asked, modified = parse_http_date(condition), parse_http_date(last_modified)
    return None if asked is None or modified is None else modified > asked


def _is_to_come(condition: str, at_us: int) -> bool:
    """Whether a condition's date is later than the request."""
    asked = parse_http_date(condition)
    return asked is not None and asked.timestamp() * US_PER_S > at_us
