"""Key prefixes that a caller may access, derived from the claims of the caller's token.

A pattern is a prefix with claims in braces. `{sub}` expands to the value of a claim, and `{groups[]}` to one prefix
per item of an array claim. Keys are matched as S3 matches them: code point by code point, without decoding or path
resolution.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from burstcache.core.errors import InvalidSettingError, RefusedRequestError

Claims = Mapping[str, str]

_CLAIM = re.compile(r"\{([^{}\[\],]+)(\[\])?\}")
_ACCEPTED = "accepted: comma-separated prefixes ending in '/', with claims as {name}, or one array as {name[]}"
_RESOLVED = frozenset({".", ".."})  # literal to S3, but resolved by some tools that mount a bucket
_MOST_LISTED = 5  # prefixes in an error message


def parse_patterns(text: str) -> tuple[str, ...]:
    """Parse comma-separated patterns such as `public/,users/{sub}/`. An empty string yields none.

    Raises:
        InvalidSettingError: A pattern does not end in a slash, has a stray brace, or has several array claims (the
            number of combinations would multiply).
    """
    patterns = tuple(filter(None, (part.strip() for part in text.split(","))))
    for pattern in patterns:
        rest = _CLAIM.sub("", pattern)
        arrays = sum(bool(match[2]) for match in _CLAIM.finditer(pattern))
        if not pattern.endswith("/") or rest == "/" == pattern or set("{}") & set(rest) or arrays > 1:
            raise InvalidSettingError(f"JWT_PREFIXES: {pattern!r} is not a key prefix; {_ACCEPTED}")
    return patterns


def allowed_prefixes(patterns: Iterable[str], claims: Claims) -> tuple[str, ...]:
    """Return the prefixes that the claims grant, in the order of the patterns.

    A pattern is skipped if one of its claims is missing or empty, contains a slash, or would produce a path segment `.`
    or `..`. Therefore a claim never escapes its path segment.
    """
    return tuple(dict.fromkeys(prefix for pattern in patterns for prefix in _filled(pattern, claims)))


def check_prefix(key: str, patterns: Sequence[str], claims: Claims) -> None:
    """Raise RefusedRequestError (403) unless the key has one of the caller's prefixes."""
    prefixes = allowed_prefixes(patterns, claims)
    if not key.startswith(prefixes):
        listed = ", ".join(map(repr, prefixes[:_MOST_LISTED])) + (", …" if len(prefixes) > _MOST_LISTED else "")
        message = f"the token's claims do not permit the key {key!r}; accepted: keys under {listed or 'no prefix'}"
        raise RefusedRequestError(403, "PrefixNotAllowed", message)


def _filled(pattern: str, claims: Claims) -> Iterable[str]:
    texts = _CLAIM.split(pattern)[::3]
    values = (_values(match[1], claims, is_array=bool(match[2])) for match in _CLAIM.finditer(pattern))
    for chosen in product(*values):
        prefix = texts[0] + "".join(value + text for value, text in zip(chosen, texts[1:], strict=True))
        if _RESOLVED.isdisjoint(prefix.split("/")):
            yield prefix


def _values(name: str, claims: Claims, *, is_array: bool) -> list[str]:
    value = claims.get(name, "")
    # An HTTP API passes an array as the text `[a b]`. Only the pattern marks a claim as an array. Otherwise users
    # could forge an array in a text claim that they control, such as a nickname.
    has_brackets = value.startswith("[") and value.endswith("]")
    items = [value] if not is_array else value[1:-1].split(" ") if has_brackets else []
    return [item for item in items if item and "/" not in item]
