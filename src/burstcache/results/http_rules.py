"""HTTP rules of a shared cache: whether and how long a response may be cached, and for which requests it may be used.

Where HTTP leaves a choice, or a header is malformed, the stricter interpretation applies.

Source:
    RFC 9111 (HTTP Caching), sections 3, 3.5, 4, 4.1, 4.2 and 5.2; RFC 5861 for stale-while-revalidate.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import NamedTuple

from burstcache.results.codecs import NotKeptError
from burstcache.results.entries import ANY

Fields = Mapping[str, str]  # header fields by lower-case name, with repeated lines joined by ", "

_CACHEABLE_BY_DEFAULT = {200, 203, 204, 300, 301, 308}
# The statuses of RFC 9110, 15.1, and those that are cacheable with explicit freshness. Excluded are partial content
# (206), not modified (304) and server errors (5xx).
_CACHEABLE_IF_STATED = _CACHEABLE_BY_DEFAULT | {201, 202, 302, 303, 307, 404, 405, 410, 414}
# Each run of white space can match in one place only; otherwise matching would take quadratic time.
_DIRECTIVE = re.compile(r"""\s*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=("(?:[^"\\]|\\.)*"|[^\s,"]*))?\s*)?(?:,|$)""")
_SECONDS = re.compile("[0-9]+")
_FIELD = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATE_FRESHNESS = "state `Cache-Control: max-age=SECONDS` in the answer, or `no-store` if it is intended"


class AnswerLifetime(NamedTuple):
    """The time for which a response is fresh, and the time after that for which it may be served stale [s]."""

    fresh_s: float
    stale_s: float


def join_fields(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the fields of a message by lower-case name, with repeated lines joined."""
    fields: dict[str, str] = {}
    for name, value in pairs:
        name = name.strip().lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def life_of_answer(status: int, answer: Fields, *, ttl_s: float, stale_s: float, now_s: float) -> AnswerLifetime:
    """Return a response's lifetime.

    Args:
        status: The response's status code.
        answer: The response's header fields.
        ttl_s: The maximum lifetime, and the default for a response without an explicit lifetime [s].
        stale_s: The maximum time for which a stale response is served [s].
        now_s: The current time [s since the epoch].

    Raises:
        NotKeptError: The response must not be cached.
    """
    directives = _directives(answer.get("cache-control", ""))
    for name in ("no-store", "private", "no-cache"):
        if name in directives:
            raise NotKeptError(f"Cache-Control: {name}")
    if "pragma" in answer and not directives and "no-cache" in answer["pragma"].lower():
        raise NotKeptError("Pragma: no-cache")
    if "set-cookie" in answer:
        raise NotKeptError("Set-Cookie", "a cookie is for one client: set it in an answer that is not cached")
    if status not in _CACHEABLE_IF_STATED or "content-range" in answer:
        raise NotKeptError(f"status {status}")
    if "*" in _names(answer.get("vary", "")):
        raise NotKeptError("Vary: *")
    age_s = _age_s(answer, now_s)
    stated_s = _stated_s(answer, directives, now_s)
    if stated_s is None and status not in _CACHEABLE_BY_DEFAULT:
        raise NotKeptError(f"status {status}", _STATE_FRESHNESS)
    fresh_s = min(ttl_s, (ttl_s if stated_s is None else stated_s) - age_s)
    if not fresh_s > 0:
        raise NotKeptError("the answer is stale from the start (max-age, s-maxage, Expires, Age)")
    if {"must-revalidate", "proxy-revalidate", "s-maxage"} & directives.keys():
        stale_s = 0
    elif "stale-while-revalidate" in directives:
        stale_s = min(stale_s, _seconds(directives["stale-while-revalidate"]))
    return AnswerLifetime(fresh_s, stale_s)


def may_be_shared(answer: Fields) -> bool:
    """Whether a response to a request with Authorization may be served to other callers (RFC 9111, 3.5)."""
    return bool({"public", "s-maxage", "must-revalidate"} & _directives(answer.get("cache-control", "")).keys())


def varying(answer: Fields) -> tuple[str, ...]:
    """Return the names of the request fields by which a response varies.

    These are the names in its Vary. An encoded response also varies by Accept-Encoding, and a response that CORS limits
    to one origin varies by Origin. Vary may omit these names.
    """
    names = _names(answer.get("vary", ""))
    if answer.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        names.add("accept-encoding")
    if answer.get("access-control-allow-origin", "*").strip() != "*":
        names.add("origin")
    return tuple(sorted(names))


def variant(names: Iterable[str], request: Fields) -> str:
    """Return a hash of these fields' values in a request (they may be secret), or `-` if there are no fields."""
    values = [f"{name}:{_normal(request[name])}" if name in request else f"{name}-" for name in names]
    return hashlib.sha256("\n".join(values).encode("utf-8", "surrogatepass")).hexdigest()[:32] if values else ANY


class RequestDirectives(NamedTuple):
    """Cache-Control directives of a request."""

    may_store: bool = True
    may_use_cached: bool = True
    only_if_cached: bool = False
    max_age_s: float = float("inf")
    min_fresh_s: float | None = None
    max_stale_s: float = float("inf")

    def accepts(self, age_s: float, fresh_s: float) -> bool:
        """Whether the request accepts a response with this age and remaining freshness (negative: stale) [s]."""
        return age_s <= self.max_age_s and fresh_s >= (
            -self.max_stale_s if self.min_fresh_s is None else self.min_fresh_s
        )


def request_directives(request: Fields) -> RequestDirectives:
    """Parse the Cache-Control directives of a request (RFC 9111, 5.2.1)."""
    directives = _directives(request.get("cache-control", ""))
    if not directives and "no-cache" in request.get("pragma", "").lower():
        return RequestDirectives(may_use_cached=False)
    if "no-store" in directives:
        return RequestDirectives(may_store=False, may_use_cached=False)
    max_age_s = _seconds(directives["max-age"]) if "max-age" in directives else float("inf")
    return RequestDirectives(
        may_use_cached="no-cache" not in directives and max_age_s > 0,
        only_if_cached="only-if-cached" in directives,
        max_age_s=max_age_s,
        min_fresh_s=max((_second(value, float("inf")) for value in directives.get("min-fresh", [])), default=None),
        max_stale_s=0.0 if max_age_s < float("inf") and "max-stale" not in directives else _max_stale_s(directives),
    )


def _max_stale_s(directives: Mapping[str, list[str]]) -> float:
    values = [value for value in directives.get("max-stale", []) if value]
    return _seconds(values) if values else float("inf")


def _directives(value: str) -> dict[str, list[str]]:
    """Return the values of each directive by lower-case name. A malformed header counts as `no-store`."""
    directives: dict[str, list[str]] = {}
    position = 0
    while position < len(value):
        match = _DIRECTIVE.match(value, position)
        if match is None:
            return {"no-store": [""]}
        if match[1]:
            directives.setdefault(match[1].lower(), []).append((match[2] or "").strip('"'))
        position = match.end()
    return directives


def _seconds(values: list[str]) -> float:
    """Return the smallest of a directive's values [s], or 0 if one is not a number."""
    return min(_second(value, 0.0) for value in values)


def _second(value: str, otherwise: float) -> float:
    return float(value) if _SECONDS.fullmatch(value) else otherwise


def _stated_s(answer: Fields, directives: Mapping[str, list[str]], now_s: float) -> float | None:
    """Return a response's explicit freshness lifetime, counted from its Date [s], or None if it has none."""
    for name in ("s-maxage", "max-age"):
        if name in directives:
            return _seconds(directives[name])
    if "expires" not in answer:
        return None
    expires_s = _date_s(answer["expires"])
    return 0.0 if expires_s is None else expires_s - (_date_s(answer.get("date", "")) or now_s)


def stated_age_s(answer: Fields) -> float:
    """Return the greatest Age that a response states [s], or infinity if a value is not a number."""
    ages = [each.strip() for each in answer.get("age", "0").split(",")]
    return max(float(each) if _SECONDS.fullmatch(each) else float("inf") for each in ages)


def _age_s(answer: Fields, now_s: float) -> float:
    """Return the age of a response on arrival [s] (RFC 9111, 4.2.3), or infinity if its Age is malformed."""
    date_s = _date_s(answer.get("date", ""))
    return max(stated_age_s(answer), 0.0 if date_s is None else now_s - date_s)


def _date_s(text: str) -> float | None:
    """Parse a date [s since the epoch]. Return None if the text is not a single date."""
    if text.count(":") != 2:
        return None
    from email.utils import parsedate_to_datetime  # imported late, since servers usually add Date after this check

    try:
        date = parsedate_to_datetime(text)
        return None if date.utcoffset() else date.replace(tzinfo=UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _names(value: str) -> set[str]:
    """Return the field names in a Vary. An invalid name counts as `*`."""
    names = {name.strip().lower() for name in value.split(",")} - {""}
    return {name if _FIELD.fullmatch(name) else "*" for name in names}


def _normal(value: str) -> str:
    return ",".join(part.strip() for part in value.split(","))
