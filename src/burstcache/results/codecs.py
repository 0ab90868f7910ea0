"""Codecs: named pairs of functions that encode and decode results. A stored entry states its codec's name."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache.results.forms import FormReader, FormWriter
from burstcache.results.result_classes import ResultClasses
from burstcache.results.type_forms import NoFormError


class Codec(NamedTuple):
    """A named encoder and decoder.

    A result for which `encode` raises an error is not cached. `is_safe`: whether `decode` is safe for untrusted bytes.
    """

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    is_safe: bool = True


class NotKeptError(Exception):
    """Raised if a result is not cacheable. `reason` is a low-cardinality label for counters; `remedy` is advice."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason


JSON = "json"
_REMEDY = (
    "accepted are JSON's types, bytes, Decimal, UUID, dates and times, tuple, set, Enum, named tuples, dataclasses and"
    " pydantic models; others need a `codec`"
)
_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def json_codec(classes: ResultClasses, *, is_answer: bool = False) -> Codec:
    """Return the default codec. It only encodes values that decode to equal values of the same types.

    Args:
        classes: Classes whose instances the function may return.
        is_answer: Whether results become JSON anyway, like a handler's responses. If so, instances of subclasses of
            dict, list, str and numbers are stored as plain JSON.
    """
    write = FormWriter(classes.name, is_json=is_answer).write
    read = FormReader(classes.find).read

    def encode(value: Any) -> bytes:
        try:
            return _to_json(write(value)).encode("utf-8", "surrogatepass")
        except NoFormError as error:
            raise NotKeptError(str(error), _REMEDY) from error
        except RecursionError as error:
            raise NotKeptError("it contains itself, or is nested too deep") from error

    def decode(payload: bytes) -> Any:
        plain = json.loads(payload.decode("utf-8", "surrogatepass"))
        return read(plain) if b'"$' in payload else plain

    return Codec(JSON, encode, decode)


def _encode_bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise NotKeptError(f"type {type(value).__qualname__}, not bytes", "return bytes, or leave `codec` out")
    return value


_BY_NAME = {
    each.name: each
    for each in (
        Codec("bytes", _encode_bytes, bytes),
        Codec("pickle", pickle.dumps, pickle.loads, is_safe=False),
    )
}
_NAMES = (JSON, *_BY_NAME)


def codec_named(codec: str | Codec, default: Codec) -> Codec:
    """Return the codec with this name, or the caller's own codec. `default` is the codec named json.

    Raises:
        InvalidSettingError: There is no such codec, or the name of the caller's codec is not allowed in an entry.
    """
    if not isinstance(codec, Codec):
        if not isinstance(codec, str) or codec not in _NAMES:
            raise InvalidSettingError(f"codec={codec!r}; accepted: {', '.join(_NAMES)}, or a burstcache.results.Codec")
        return default if codec == JSON else _BY_NAME[codec]
    if not codec.name.isidentifier() or not codec.name.isascii() or codec.name in _NAMES:
        raise InvalidSettingError(
            f"codec name {codec.name!r}; accepted: letters and digits, none of {', '.join(_NAMES)}"
        )
    return codec
