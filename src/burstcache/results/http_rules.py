"""HTTP rules of a shared cache: whether an answer may be kept, for how long, and which requests it answers.

Where HTTP leaves a choice, or a header is malformed, the stricter reading is taken.

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

Fields = Mapping[str, str]  # of a message, by names in lower case; lines of one name are joined by ", "

_KEPT_BY_DEFAULT = {200, 203, 204, 300, 301, 308}
# RFC 9110, 15.1, and what an answer can make cacheable: no part (206), no answer to a condition (304), no fault (5xx).
_KEPT_IF_IT_SAYS_SO = _KEPT_BY_DEFAULT | {201, 202, 302, 303, 307, 404, 405, 410, 414}
# White space is matched in one place only: in two it takes quadratic time.
_DIRECTIVE = re.compile(r"""\s*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=("(?:[^"\\]|\\.)*"|[^\s,"]*))?\s*)?(?:,|$)""")
_SECONDS = re.compile("[0-9]+")
_FIELD = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SAY_SO = "let the answer say so by `Cache-Control: max-age=SECONDS`, or `no-store` if it is meant"


class Life(NamedTuple):
    """How long an answer is served, and how long it may then be served stale [s]."""

    fresh_s: float
    stale_s: float


def join_fields(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the fields of a message by name, whatever the case of a name and however many lines it has."""
    fields: dict[str, str] = {}
    for name, value in pairs:
        name = name.strip().lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def life_of_answer(status: int, answer: Fields, *, ttl_s: float, stale_s: float, now_s: float) -> Life:
    """Return how long an answer may be served.

    Args:
        status: Its status code.
        answer: Its fields.
        ttl_s: How long it is served at most, and if it does not say for how long it is good [s].
        stale_s: How long it is served stale at most [s].
        now_s: The present, since the epoch [s].

    Raises:
        NotKeptError: It may not be kept.
    """
    directives = _directives(answer.get("cache-control", ""))
    for name in ("no-store", "private", "no-cache"):
        if name in directives:
            raise NotKeptError(f"Cache-Control: {name}")
    if "pragma" in answer and not directives and "no-cache" in answer["pragma"].lower():
        raise NotKeptError("Pragma: no-cache")
    if "set-cookie" in answer:
        raise NotKeptError("Set-Cookie", "a cookie is for one client: set it in an answer that is not cached")
    if status not in _KEPT_IF_IT_SAYS_SO or "content-range" in answer:
        raise NotKeptError(f"status {status}")
    if "*" in _names(answer.get("vary", "")):
        raise NotKeptError("Vary: *")
    age_s = _age_s(answer, now_s)
    stated_s = _stated_s(answer, directives, now_s)
    if stated_s is None and status not in _KEPT_BY_DEFAULT:
        raise NotKeptError(f"status {status}", _SAY_SO)
    fresh_s = min(ttl_s, (ttl_s if stated_s is None else stated_s) - age_s)
    if not fresh_s > 0:
        raise NotKeptError("the answer is stale from the start (max-age, s-maxage, Expires, Age)")
    if {"must-revalidate", "proxy-revalidate", "s-maxage"} & directives.keys():
        stale_s = 0
    elif "stale-while-revalidate" in directives:
        stale_s = min(stale_s, _seconds(directives["stale-while-revalidate"]))
    return Life(fresh_s, stale_s)


def may_be_shared(answer: Fields) -> bool:
    """Whether an answer to a request with Authorization may be served to others (RFC 9111, 3.5)."""
    return bool({"public", "s-maxage", "must-revalidate"} & _directives(answer.get("cache-control", "")).keys())


def varying(answer: Fields) -> tuple[str, ...]:
    """Return the names of the request's fields on which an answer depends.

    These are the names in its Vary. An encoded answer depends on Accept-Encoding, and one that a single origin may read
    depends on Origin, whether it says so or not.
    """
    names = _names(answer.get("vary", ""))
    if answer.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        names.add("accept-encoding")
    if answer.get("access-control-allow-origin", "*").strip() != "*":
        names.add("origin")
    return tuple(sorted(names))


def variant(names: Iterable[str], request: Fields) -> str:
    """Return a hash of what a request has in these fields, or `-` without any: a field may be secret."""
    values = [f"{name}:{_normal(request[name])}" if name in request else f"{name}-" for name in names]
    return hashlib.sha256("\n".join(values).encode("utf-8", "surrogatepass")).hexdigest()[:32] if values else ANY


class Wanted(NamedTuple):
    """What a request's Cache-Control wants of a cache."""

    may_be_kept: bool = True
    may_be_found: bool = True
    only_if_cached: bool = False
    max_age_s: float = float("inf")
    min_fresh_s: float = 0.0
    max_stale_s: float = float("inf")

    def accepts(self, age_s: float, fresh_s: float) -> bool:
        """Whether the request takes an answer of that age, which is fresh for that much longer, or was [s]."""
        return age_s <= self.max_age_s and fresh_s >= (self.min_fresh_s or -self.max_stale_s)


def wanted(request: Fields) -> Wanted:
    """Return what a request wants of a cache (RFC 9111, 5.2.1)."""
    directives = _directives(request.get("cache-control", ""))
    if not directives and "no-cache" in request.get("pragma", "").lower():
        return Wanted(may_be_found=False)
    if "no-store" in directives:
        return Wanted(may_be_kept=False, may_be_found=False)
    max_age_s = _seconds(directives["max-age"]) if "max-age" in directives else float("inf")
    return Wanted(
        may_be_found="no-cache" not in directives and max_age_s > 0,
        only_if_cached="only-if-cached" in directives,
        max_age_s=max_age_s,
        min_fresh_s=max((_second(value, float("inf")) for value in directives.get("min-fresh", [])), default=0.0),
        max_stale_s=0.0 if max_age_s < float("inf") and "max-stale" not in directives else _max_stale_s(directives),
    )


def _max_stale_s(directives: Mapping[str, list[str]]) -> float:
    values = [value for value in directives.get("max-stale", []) if value]
    return _seconds(values) if values else float("inf")


def _directives(value: str) -> dict[str, list[str]]:
    """Return the values of each directive, by names in lower case; a field that cannot be parsed forbids to store."""
    found: dict[str, list[str]] = {}
    position = 0
    while position < len(value):
        match = _DIRECTIVE.match(value, position)
        if match is None:
            return {"no-store": [""]}
        if match[1]:
            found.setdefault(match[1].lower(), []).append((match[2] or "").strip('"'))
        position = match.end()
    return found


def _seconds(values: list[str]) -> float:
    """Return the least of a directive's values [s]; 0 if one is no number."""
    return min(_second(value, 0.0) for value in values)


def _second(value: str, otherwise: float) -> float:
    return float(value) if _SECONDS.fullmatch(value) else otherwise


def _stated_s(answer: Fields, directives: Mapping[str, list[str]], now_s: float) -> float | None:
    """Return for how long an answer says that it is good, from its Date on [s]; None if it does not say."""
    for name in ("s-maxage", "max-age"):
        if name in directives:
            return _seconds(directives[name])
    if "expires" not in answer:
        return None
    expires_s = _date_s(answer["expires"])
    return 0.0 if expires_s is None else expires_s - (_date_s(answer.get("date", "")) or now_s)


def stated_age_s(answer: Fields) -> float:
    """Return the age that an answer states, the greatest of several [s]; beyond all limits if one is no number."""
    ages = [each.strip() for each in answer.get("age", "0").split(",")]
    return max(float(each) if _SECONDS.fullmatch(each) else float("inf") for each in ages)


def _age_s(answer: Fields, now_s: float) -> float:
    """Return how old an answer is when it arrives [s] (RFC 9111, 4.2.3); beyond all limits if it is unclear."""
    date_s = _date_s(answer.get("date", ""))
    return max(stated_age_s(answer), 0.0 if date_s is None else now_s - date_s)


def _date_s(text: str) -> float | None:
    """Return a date [s since the epoch]; None if it is none, or several."""
    if text.count(":") != 2:
        return None
    from email.utils import parsedate_to_datetime  # few answers have a date before a server writes it

    try:
        date = parsedate_to_datetime(text)
        return None if date.utcoffset() else date.replace(tzinfo=UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _names(value: str) -> set[str]:
    """Return the names of a Vary; what is no name is a `*`."""
    names = {name.strip().lower() for name in value.split(",")} - {""}
    return {name if _FIELD.fullmatch(name) else "*" for name in names}


def _normal(value: str) -> str:
    return ",".join(part.strip() for part in value.split(","))
