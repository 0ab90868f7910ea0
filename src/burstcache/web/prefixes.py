"""Which keys a caller may name: those under the prefixes that the claims of its token fill in.

A pattern is a prefix with claims in braces: `{sub}` is one claim's text, `{groups[]}` each item of a claim that is an
array. Keys are compared as S3 compares them, code point by code point: nothing in them is decoded or resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from burstcache.core.errors import InvalidSettingError, RefusedRequestError

Claims = Mapping[str, str]

_CLAIM = re.compile(r"\{([^{}\[\],]+)(\[\])?\}")
_ACCEPTED = "accepted: prefixes by commas that end in '/', with claims as {name}, or one of each prefix as {name[]}"
_RESOLVED = frozenset({".", ".."})  # folders that S3 takes as they are, but not all that mounts a bucket does
_MOST_NAMED = 5  # prefixes in a refusal


def parse_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns in `public/,users/{sub}/`; an empty text has none.

    Raises:
        InvalidSettingError: A pattern does not end in a slash, has a brace that belongs to no claim, or has several
            arrays, whose items would give a product of prefixes.
    """
    patterns = tuple(filter(None, (part.strip() for part in text.split(","))))
    for pattern in patterns:
        rest = _CLAIM.sub("", pattern)
        arrays = sum(bool(match[2]) for match in _CLAIM.finditer(pattern))
        if not pattern.endswith("/") or rest == "/" == pattern or set("{}") & set(rest) or arrays > 1:
            raise InvalidSettingError(f"JWT_PREFIXES: {pattern!r} is no prefix of keys; {_ACCEPTED}")
    return patterns


def allowed_prefixes(patterns: Iterable[str], claims: Claims) -> tuple[str, ...]:
    """Return the prefixes that claims give, in the order of the patterns.

    A claim that is missing, empty or has a slash fills in nothing, so that no token reaches beyond one folder of it;
    nor does one that makes a folder `.` or `..`.
    """
    return tuple(dict.fromkeys(prefix for pattern in patterns for prefix in _filled(pattern, claims)))


def check_prefix(key: str, patterns: Sequence[str], claims: Claims) -> None:
    """Raise RefusedRequestError (403) unless a key is under one of a caller's prefixes."""
    prefixes = allowed_prefixes(patterns, claims)
    if not key.startswith(prefixes):
        named = ", ".join(map(repr, prefixes[:_MOST_NAMED])) + (", …" if len(prefixes) > _MOST_NAMED else "")
        message = f"the token's claims give no right to the key {key!r}; accepted: keys under {named or 'no prefix'}"
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
    # An HTTP API hands an array over as a text, `[a b]`. Only a pattern says that a claim is one: a person who may
    # choose a text, such as a nickname, could write the same.
    is_shown_as_one = value.startswith("[") and value.endswith("]")
    items = [value] if not is_array else value[1:-1].split(" ") if is_shown_as_one else []
    return [item for item in items if item and "/" not in item]
