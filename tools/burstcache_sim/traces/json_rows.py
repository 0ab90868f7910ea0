"""Rows of JSON: one object a line, perhaps behind a syslog header."""

from __future__ import annotations

import json
from typing import Any

from burstcache_sim.traces.errors import BadRowError

_OF_AN_ARRAY = " a line, as `jq -c '.[]'` writes those of an array"


def json_object(line: bytes) -> dict[str, Any]:
    """Return the object that a line holds; text that is not UTF-8 keeps its bytes as surrogates.

    Raises:
        BadRowError: The line holds something else.
    """
    import orjson

    if not line.startswith(b"{") and not line.startswith(b"["):
        line = line[max(0, line.find(b"{")) :]  # a syslog header
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _lenient(line)
    if not isinstance(value, dict):
        raise BadRowError(f"an object of JSON{_OF_AN_ARRAY if isinstance(value, list) else ''}")
    return value


def _lenient(line: bytes) -> Any:
    """Return what a line holds although a server wrote the bytes of a request into it as they came."""
    try:
        return json.loads(line.decode("utf-8", "surrogateescape"), strict=False)
    except (ValueError, RecursionError) as error:
        raise BadRowError(f"an object of JSON ({error})") from error


def text_of(value: object) -> bytes:
    """Return a member's value as other formats write it; what is null, empty or compound is empty.

    Raises:
        BadRowError: The text has half of a surrogate pair.
    """
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise BadRowError("text of Unicode, without half of a surrogate pair") from error
    return str(value).encode() if isinstance(value, int | float) and not isinstance(value, bool) else b""
