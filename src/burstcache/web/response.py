"""Responses for every outcome, identical across tiers. All responses are built here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from burstcache.core.errors import OriginError
from burstcache.web.conditions import NOT_MODIFIED, PRECONDITION_FAILED, failed_condition, range_applies
from burstcache.web.headers import CHECKSUM_HEADERS, age_s, not_modified_headers
from burstcache.web.request import Request

_PRECONDITION_MESSAGE = "a condition of the request (If-Match or If-Unmodified-Since) does not hold for the object"


class Extent(NamedTuple):
    """The bytes of an object that belong into a response, from `start` up to `end`, exclusive [bytes]."""

    start: int
    end: int
    object_bytes: int


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response, header names in lower case. The body of a response to HEAD is empty."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_text: bool = False
    is_keepable: bool = True  # False: not cacheable, since the store does not identify the object's version
    cause: OriginError | None = field(default=None, compare=False)  # exception for in-process callers
    extent: Extent | None = field(default=None, compare=False)  # of a response without its body; None: see the headers

    @property
    def is_whole(self) -> bool:
        """Whether the body matches Content-Length. False for a GET whose body the caller reads itself."""
        return self.headers.get("content-length") == str(len(self.body))

    def served_by(self, tier: str, *, is_hit: bool, bound_ms: int = 0, age_s: int = 0) -> Response:
        """Return the response with headers that state its tier and freshness.

        Args:
            tier: Tier that served the response.
            is_hit: Whether the response was served by a cache.
            bound_ms: Staleness bound: the response includes every write announced longer ago than this [ms].
            age_s: Time since S3 sent or confirmed the response, unless its headers already state an age [s].
        """
        headers = {
            "age": str(age_s),
            **self.headers,
            "x-cache-tier": tier,
            "x-cache": "hit" if is_hit else "miss",
            "x-cache-bound": str(bound_ms),
        }
        # `dataclasses.replace` takes twice as long, which shows in a hit of memory.
        return Response(self.status, headers, self.body, self.is_text, self.is_keepable, self.cause, self.extent)


def error_response(
    status: int, code: str, message: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error response with a JSON body, empty for HEAD."""
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    all_headers = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    return Response(status, all_headers, b"" if method == "HEAD" else body, is_text=True)


def no_such_key(request: Request) -> Response:
    """Return the 404 for an object that does not exist or is outside the readable prefix."""
    return error_response(404, "NoSuchKey", f"there is no object {request.key!r}", method=request.method)


def origin_unavailable(method: str, message: str = "S3 cannot be reached at the moment; try again") -> Response:
    """Return the 503 for a read to which S3 did not respond."""
    return error_response(503, "OriginUnavailable", message, method=method, headers={"retry-after": "1"})


def precondition_failed(method: str, *, etag: str = "") -> Response:
    """Return a 412 with the object's ETag, if known."""
    headers = {"etag": etag} if etag else {}
    return error_response(
        PRECONDITION_FAILED, "PreconditionFailed", _PRECONDITION_MESSAGE, method=method, headers=headers
    )


def range_not_satisfiable(method: str, size_bytes: int | None, *, etag: str = "") -> Response:
    """Return a 416 with the object's size and ETag, if known."""
    size = "*" if size_bytes is None else size_bytes
    headers = {} if size_bytes is None else {"content-range": f"bytes */{size_bytes}"}
    headers |= {"etag": etag} if etag else {}
    message = f"no byte of the requested range exists; the object's size in bytes: {size}"
    return error_response(416, "InvalidRange", message, method=method, headers=headers)


def redirect(url: str, *, etag: str) -> Response:
    """Return a 307 to a presigned URL for one read of the object. The object's current ETag is in the headers."""
    return Response(307, {"location": url, "etag": etag, "cache-control": "no-store", "content-length": "0"})


def written(*, etag: str, version_id: str) -> Response:
    """Return the response to a successful PUT, or to a successful DELETE if the ETag is empty."""
    headers = {"etag": etag, "x-amz-version-id": version_id, "content-length": "0" if etag else ""}
    return Response(200 if etag else 204, {name: value for name, value in headers.items() if value})


def upload(url: str, headers: Mapping[str, str], *, valid_s: int) -> Response:
    """Return a presigned upload as JSON: the URL, method and headers for the client's PUT."""
    body = json.dumps({"method": "PUT", "url": url, "headers": dict(headers), "valid_s": valid_s}).encode()
    about = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-store"}
    return Response(200, about, body, is_text=True)


def object_response(request: Request, meta: Mapping[str, str], body: bytes) -> Response:
    """Build the response to a read from a cached object, as S3 would respond.

    Args:
        request: A GET or HEAD. Its conditions and range are evaluated here.
        meta: Headers of the object: `etag`, `content-length` (of the whole object), …
        body: The whole object. Unused for HEAD.
    """
    etag, is_ranged = meta["etag"], request.range is not None
    age = str(age_s(meta, at_us=request.at_us)) if "date" in meta else meta.get("age", "0")
    if request.headers:  # most hits have none
        last_modified = meta.get("last-modified", "")
        status = failed_condition(request.headers, etag=etag, last_modified=last_modified, at_us=request.at_us)
        if status == PRECONDITION_FAILED:
            return precondition_failed(request.method, etag=etag)
        if status == NOT_MODIFIED:
            return Response(NOT_MODIFIED, not_modified_headers(meta) | {"age": age})
        is_ranged = is_ranged and range_applies(request.headers, etag=etag, last_modified=last_modified)
    headers = {**meta, "age": age, "accept-ranges": "bytes"}
    headers.pop("date", None)
    body = b"" if request.method == "HEAD" else body
    if request.range is None or not is_ranged:
        return Response(200, headers, body)
    size_bytes = int(meta["content-length"])
    if (part := request.range.within(size_bytes)) is None:
        return range_not_satisfiable(request.method, size_bytes, etag=etag)
    first, end = part
    if not size_bytes:  # a 206 cannot express an empty range
        return Response(200, headers, body)
    for name in CHECKSUM_HEADERS:  # they are of the whole object
        headers.pop(name, None)
    headers["content-range"] = f"bytes {first}-{end - 1}/{size_bytes}"
    headers["content-length"] = str(end - first)
    if body or request.method == "HEAD":
        return Response(206, headers, body[first:end])
    return Response(206, headers, extent=Extent(first, end, size_bytes))


def part_response(request: Request, wider: Response) -> Response | None:
    """Cut the response to a range from the 206 of a wider one. None: it does not have the range.

    Args:
        request: The GET of the range.
        wider: The response, with its body.
    """
    sent, _, size = wider.headers.get("content-range", "").removeprefix("bytes ").partition("/")
    start = sent.partition("-")[0]
    if not (wider.is_whole and size.isdecimal() and start.isdecimal() and request.range is not None):
        return None
    first, size_bytes = int(start), int(size)
    part = request.range.within(size_bytes)
    if part is None or not first <= part[0] < part[1] <= first + len(wider.body):
        return None
    body = wider.body[part[0] - first : part[1] - first]
    length = {"content-range": f"bytes {part[0]}-{part[1] - 1}/{size_bytes}", "content-length": str(len(body))}
    return replace(wider, headers={**wider.headers, **length}, body=body)


def hit_response(request: Request, meta: Mapping[str, str], body: bytes, tier: str, *, bound_ms: int) -> Response:
    """Build the response to a read from a cached object that a tier has served. See `object_response`, `served_by`."""
    response = object_response(request, meta, body)
    headers = response.headers  # nobody else has them yet
    headers.setdefault("age", "0")
    headers["x-cache-tier"], headers["x-cache"], headers["x-cache-bound"] = tier, "hit", str(bound_ms)
    return response
