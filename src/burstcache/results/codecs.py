"""How a result becomes bytes and bytes a result again; a codec has a name, which stands in the stored entry."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from burstcache.core.errors import InvalidSettingError


class Codec(NamedTuple):
    """A named pair of functions.

    `encode` may raise any error for what it does not take: that result is not kept. `is_safe`: whether `decode` may be
    given bytes from a place to which others write.
    """

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    is_safe: bool = True


_IN_JSON = (str, int, float, bool, type(None))  # apart from dictionaries and lists
_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def encode_json(value: Any) -> bytes:
    """Return JSON from which the same value comes back, or raise an error: equal alone is not enough.

    Of a tuple it would be a list, of a number as a name a text, of a Counter a dictionary, of an IntEnum a number.
    """
    text = _to_json(value)
    rest = [value]
    while rest:
        part = rest.pop()
        if type(part) is dict:
            if not all(type(name) is str for name in part):
                raise TypeError("JSON would give back another value: its names are texts, nothing else")
            rest += part.values()
        elif type(part) is list:
            rest += part
        elif type(part) not in _IN_JSON:
            raise TypeError(f"JSON would give back another value: it has no {type(part).__qualname__}")
    return text.encode("utf-8", "surrogatepass")


def _decode_json(payload: bytes) -> Any:
    return json.loads(payload.decode("utf-8", "surrogatepass"))


def _encode_bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise TypeError(f"the result is {type(value).__qualname__}, not bytes")
    return value


_BY_NAME = {
    each.name: each
    for each in (
        Codec("json", encode_json, _decode_json),
        Codec("bytes", _encode_bytes, bytes),
        Codec("pickle", pickle.dumps, pickle.loads, is_safe=False),
    )
}


def codec_named(codec: str | Codec) -> Codec:
    """Return a codec by its name, or one of the caller's own as it is.

    Raises:
        InvalidSettingError: There is no such codec, or its own name cannot stand in an entry.
    """
    if not isinstance(codec, Codec):
        if not isinstance(codec, str) or codec not in _BY_NAME:
            raise InvalidSettingError(
                f"codec={codec!r}; accepted: {', '.join(_BY_NAME)}, or a burstcache.results.Codec"
            )
        return _BY_NAME[codec]
    if not codec.name.isidentifier() or not codec.name.isascii() or codec.name in _BY_NAME:
        raise InvalidSettingError(
            f"codec name {codec.name!r}; accepted: letters and digits, none of {', '.join(_BY_NAME)}"
        )
    return codec
