"""JSON rows: one object per line, optionally after a syslog header."""

from __future__ import annotations

import json
from typing import Any

from burstcache_sim.traces.errors import BadRowError

_OF_AN_ARRAY = " a line, as `jq -c '.[]'` writes those of an array"


def json_object(line: bytes) -> dict[str, Any]:
    """Return the object in a line. Bytes that are not UTF-8 become surrogates.

    Raises:
        BadRowError: The line is not a JSON object.
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
    """Parse a line that contains a request's raw bytes, as written by some servers."""
    try:
        return json.loads(line.decode("utf-8", "surrogateescape"), strict=False)
    except (ValueError, RecursionError) as error:
        raise BadRowError(f"an object of JSON ({error})") from error


def text_of(value: object) -> bytes:
    """Return a member's value as text. Null, booleans, arrays and objects become empty text.

    Raises:
        BadRowError: The text has an unpaired surrogate.
    """
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise BadRowError("Unicode text without unpaired surrogates") from error
    return str(value).encode() if isinstance(value, int | float) and not isinstance(value, bool) else b""
