"""Requests to the tiers, built from the arguments of a call."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from burstcache.adapters.clock import Clock
from burstcache.core.errors import RefusedRequestError, WrongTypeError
from burstcache.core.keys import key_hash
from burstcache.web.headers import is_safe
from burstcache.web.keys import check_key
from burstcache.web.ranges import ByteRange, parse_range
from burstcache.web.request import Request

if TYPE_CHECKING:
    from burstcache.web.writing import WriteHeaders

_MOST_HASHES = _MOST_RANGES = 4096  # of recent reads
_RANGES = "accepted: bytes=first-last, bytes=first- or bytes=-length, for example bytes=0-499"


class RequestBuilder:
    """A builder of requests. Each request has a unique id, the idempotency key of its report."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._prefix = os.urandom(8).hex()
        self._numbers = itertools.count()

    def make(
        self,
        method: str,
        key: str,
        *,
        range: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        if_modified_since: datetime | None = None,
        if_unmodified_since: datetime | None = None,
        max_age_s: int | None = None,
    ) -> Request:
        """Build a request from the arguments of a call.

        Raises:
            RefusedRequestError: An argument is malformed. The message names the accepted values.
        """
        headers: dict[str, str] = {}
        if if_match is not None:
            headers["if-match"] = _checked("if_match", if_match)
        if if_none_match is not None:
            headers["if-none-match"] = _checked("if_none_match", if_none_match)
        if if_modified_since is not None:
            headers["if-modified-since"] = _http_date("if_modified_since", if_modified_since)
        if if_unmodified_since is not None:
            headers["if-unmodified-since"] = _http_date("if_unmodified_since", if_unmodified_since)
        if max_age_s is not None:
            if not isinstance(max_age_s, int | float) or isinstance(max_age_s, bool):
                raise WrongTypeError.of("max_age_s", max_age_s, "int (seconds)")
            if not max_age_s >= 0:
                raise RefusedRequestError(400, "MalformedHeader", f"max_age_s={max_age_s!r}; accepted: 0 or more")
            headers["cache-control"] = f"max-age={max_age_s:.0f}"
        return self._request(method, key, headers, None if range is None else _parsed(_text("range", range)))

    def read(self, method: str, key: str, conditions: Mapping[str, str], *, range: str | None) -> Request:
        """Build a request from HTTP headers with lower-case names.

        Raises:
            RefusedRequestError: The key is malformed.
        """
        return self._request(method, key, conditions, None if range is None else parse_range(range))

    def _request(self, method: str, key: str, headers: Mapping[str, str], range: ByteRange | None) -> Request:
        hash_ = _checked_hash(_text("key", key))
        request_id = f"{self._prefix}{next(self._numbers):x}"
        return Request(method, key, hash_, headers, range, request_id, self._clock.now_us())


def checked_write(key: str, **headers: str | None) -> WriteHeaders:
    """Return the headers of a write, without those that are None.

    Raises:
        RefusedRequestError: The key or a header is malformed.
    """
    checked_key(key)
    if headers.get("if_none_match") not in (None, "*"):  # S3 accepts no other value, but some S3-compatible stores do
        message = f"if_none_match={headers['if_none_match']!r}: a write accepts '*' only"
        raise RefusedRequestError(400, "MalformedHeader", message)
    present = {name: _checked(name, value) for name, value in headers.items() if value is not None}
    return cast("WriteHeaders", present)


def checked_body(data: object) -> bytes:
    """Return the bytes to write, or raise TypeError. boto3 would silently encode a string."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data is of type {type(data).__name__}; accepted: bytes, bytearray, memoryview")
    return bytes(data)


def checked_key(key: object) -> str:
    """Return the key if it is valid. Raise WrongTypeError if it is not a string, else RefusedRequestError."""
    text = _text("key", key)
    check_key(text)
    return text


@lru_cache(_MOST_HASHES)
def _checked_hash(key: str) -> str:
    """Return the hash of a key, or raise RefusedRequestError."""
    check_key(key)
    return key_hash(key)


@lru_cache(_MOST_RANGES)
def _parsed(text: str) -> ByteRange:
    if not text.isascii() or (part := parse_range(text)) is None:
        _checked("range", text)
        message = f"range={text[:100]!r} is not one range of bytes; {_RANGES}"  # S3 would return the whole object
        raise RefusedRequestError(400, "MalformedRange", message)
    return part


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise WrongTypeError.of(name, value, "str")
    return value


def _checked(name: str, value: str) -> str:
    value = _text(name, value)
    if not value.strip() or not is_safe(value):
        raise RefusedRequestError(400, "MalformedHeader", f"{name}={value!r}: only printable ASCII is accepted")
    return value


def _http_date(name: str, value: datetime) -> str:
    if not isinstance(value, datetime):
        raise WrongTypeError.of(name, value, "datetime with a time zone")
    if value.tzinfo is None:
        raise RefusedRequestError(
            400, "MalformedHeader", f"{name}={value!r}: only a datetime with a time zone is accepted"
        )
    try:
        return format_datetime(value.astimezone(UTC), usegmt=True)
    except OverflowError:
        message = f"{name}={value!r}: only years 1 to 9999 in UTC are accepted"
        raise RefusedRequestError(400, "MalformedHeader", message) from None
