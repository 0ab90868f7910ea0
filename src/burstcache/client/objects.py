"""The objects that a client returns, and the exceptions that it raises for S3's errors."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    NotModifiedError,
    ObjectNotFoundError,
    OriginError,
    OriginUnavailableError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    RefusedRequestError,
)
from burstcache.web.dates import parse_http_date
from burstcache.web.headers import object_size_bytes
from burstcache.web.response import Response

_USER_METADATA = "x-amz-meta-"
_OK, _PARTIAL = 200, 206


@dataclass(frozen=True, slots=True)
class Object:
    """One object, or the requested range of it.

    `body` is empty for `head`. `headers` are S3's and the cache's headers, with names in lower case.
    """

    key: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @property
    def etag(self) -> str:
        """S3's ETag with its quotes, as `if_match` and `if_none_match` accept it."""
        return self.headers.get("etag", "")

    @property
    def size_bytes(self) -> int:
        """Size of the whole object, even if `body` is a part of it. 0 if unknown."""
        return object_size_bytes(self.headers)

    @property
    def content_type(self) -> str:
        """The media type, or empty if S3 sends none."""
        return self.headers.get("content-type", "")

    @property
    def last_modified(self) -> datetime | None:
        """Time of the last write in UTC, or None if unknown."""
        return parse_http_date(self.headers.get("last-modified", ""))

    @property
    def metadata(self) -> dict[str, str]:
        """User metadata, by name without `x-amz-meta-`."""
        start = len(_USER_METADATA)
        return {name[start:]: value for name, value in self.headers.items() if name.startswith(_USER_METADATA)}

    @property
    def tier(self) -> str:
        """The furthest tier that any byte came from: memory, disk, lambda, redis, express, pool or s3.

        The body of `head` of an open file is not read yet: its tier is the expected one.
        """
        return self.headers["x-cache-tier"]

    @property
    def age_s(self) -> int:
        """Seconds since S3 sent or confirmed this copy."""
        return int(self.headers.get("age", 0))

    @property
    def bound_ms(self) -> int:
        """Bound of staleness: the copy includes every write announced more than this many milliseconds ago."""
        return int(self.headers.get("x-cache-bound", 0))

    @property
    def is_hit(self) -> bool:
        """True if a cache served the object instead of S3."""
        return self.headers["x-cache"] == "hit"


def object_in(key: str, response: Response) -> Object:
    """Return the object in a response, or raise the corresponding error."""
    if response.status in (_OK, _PARTIAL):
        return Object(key, response.body, response.headers)
    raise _error_in(key, response)


def _error_in(key: str, response: Response) -> BurstcacheError:
    status, etag = response.status, response.headers.get("etag", "")
    if response.cause is not None:
        error = copy.copy(response.cause)  # other callers may share the response
        if repr(key) not in str(error):
            error.args = (f"{key!r}: {error}",)
        return error
    code, message = _details(response)
    match status:
        case 304:
            return NotModifiedError(f"{key!r} is the one that the caller has", etag=etag)
        case 403:
            return AccessDeniedError(f"S3 refuses the read of {key!r}: {code or 'AccessDenied'}")
        case 404:
            return ObjectNotFoundError(f"S3 has no object {key!r}")
        case 412:
            return PreconditionFailedError(
                f"{key!r} is not the one that if_match or if_unmodified_since asks for", etag=etag
            )
        case 416:
            size = response.headers.get("content-range", "").rpartition("/")[2]
            size_bytes = int(size) if size.isdecimal() else None
            return RangeNotSatisfiableError(
                f"{key!r} has no byte of the range; its size: {size or 'unknown'}", etag=etag, size_bytes=size_bytes
            )
    if status >= 500:
        return OriginUnavailableError(f"{key!r}: {message or f'S3 answered {status}'}", status=status, code=code)
    if status == 400:
        return RefusedRequestError(status, code, f"{key!r}: {message or f'S3 answered {status}'}")
    return OriginError(f"{key!r}: {message or f'S3 answered {status}'}", status=status, code=code)


def _details(response: Response) -> tuple[str, str]:
    """Return the code and message of an error. Both are empty for a response to HEAD."""
    try:
        error = json.loads(response.body)["error"]
        return error["code"], error["message"]
    except (ValueError, KeyError, TypeError):
        return "", ""
