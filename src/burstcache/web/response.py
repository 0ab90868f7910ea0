"""Answers: what each outcome looks like, whichever tier it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burstcache.core.errors import OriginError
from burstcache.web.conditions import NOT_MODIFIED, PRECONDITION_FAILED, failed_condition, range_applies
from burstcache.web.headers import age_s, not_modified_headers
from burstcache.web.request import Request

_PRECONDITION_MESSAGE = "a condition of the request (If-Match or If-Unmodified-Since) does not hold for the object"


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. `headers` have lower-case names; the body of an answer to HEAD is empty, whatever its length says."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_text: bool = False
    is_keepable: bool = True  # False: the store does not identify the object's version
    cause: OriginError | None = field(default=None, compare=False)  # the exception that a program gets

    @property
    def is_whole(self) -> bool:
        """Whether the body is all that the headers announce: not of a GET whose body is left to the caller."""
        return self.headers.get("content-length") == str(len(self.body))

    def served_by(self, tier: str, *, is_hit: bool, bound_ms: int = 0, age_s: int = 0) -> Response:
        """Return the answer with the headers that say where it comes from and how fresh it is.

        Args:
            tier: What has answered.
            is_hit: Whether a cache had it.
            bound_ms: How long ago a write may have been announced that the answer does not show, at most [ms].
            age_s: How long ago S3 gave or confirmed it, if it does not say so itself [s].
        """
        hit = "hit" if is_hit else "miss"
        provenance = {"x-cache-tier": tier, "x-cache": hit, "x-cache-bound": str(bound_ms)}
        return replace(self, headers={"age": str(age_s)} | self.headers | provenance)


def error_response(
    status: int, code: str, message: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as JSON that names what is wrong, without a body for HEAD."""
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    all_headers = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    return Response(status, all_headers, b"" if method == "HEAD" else body, is_text=True)


def no_such_key(request: Request) -> Response:
    """Return the 404 of an object that does not exist, or is outside of what may be read."""
    return error_response(404, "NoSuchKey", f"there is no object {request.key!r}", method=request.method)


def origin_unavailable(method: str, message: str = "S3 cannot be reached at the moment; try again") -> Response:
    """Return the 503 of a read to which S3 has not given an answer."""
    return error_response(503, "OriginUnavailable", message, method=method, headers={"retry-after": "1"})


def precondition_failed(method: str, *, etag: str = "") -> Response:
    """Return a 412 that names the object's ETag, if it is known."""
    headers = {"etag": etag} if etag else {}
    return error_response(
        PRECONDITION_FAILED, "PreconditionFailed", _PRECONDITION_MESSAGE, method=method, headers=headers
    )


def range_not_satisfiable(method: str, size_bytes: int | None, *, etag: str = "") -> Response:
    """Return a 416 that names the object's size and its ETag, as far as they are known."""
    size = "*" if size_bytes is None else size_bytes
    headers = {} if size_bytes is None else {"content-range": f"bytes */{size_bytes}"}
    headers |= {"etag": etag} if etag else {}
    message = f"no byte of the requested range exists; the object's size in bytes: {size}"
    return error_response(416, "InvalidRange", message, method=method, headers=headers)


def redirect(url: str, *, etag: str) -> Response:
    """Return a 307 to a URL from which the object, which has this ETag now, is read once."""
    return Response(307, {"location": url, "etag": etag, "cache-control": "no-store", "content-length": "0"})


def written(*, etag: str, version_id: str) -> Response:
    """Return S3's answer to a PUT, or without an ETag that to a DELETE."""
    given = {"etag": etag, "x-amz-version-id": version_id, "content-length": "0" if etag else ""}
    return Response(200 if etag else 204, {name: value for name, value in given.items() if value})


def upload(url: str, headers: Mapping[str, str], *, valid_s: int) -> Response:
    """Return what a client is to put an object by: it sends it to a URL, with these headers."""
    body = json.dumps({"method": "PUT", "url": url, "headers": dict(headers), "valid_s": valid_s}).encode()
    about = {"content-type": "application/json", "content-length": str(len(body)), "cache-control": "no-store"}
    return Response(200, about, body, is_text=True)


def object_response(request: Request, meta: Mapping[str, str], body: bytes) -> Response:
    """Return what S3 would answer, made from a cached object.

    Args:
        request: A GET or HEAD; its conditions and range are evaluated here.
        meta: The object's headers: `etag`, `content-length` (of the whole object), …
        body: The whole object; the answer to a HEAD has none of it.
    """
    etag, last_modified = meta["etag"], meta.get("last-modified", "")
    status = failed_condition(request.headers, etag=etag, last_modified=last_modified, at_us=request.at_us)
    if status == PRECONDITION_FAILED:
        return precondition_failed(request.method, etag=etag)
    age = str(age_s(meta, at_us=request.at_us)) if "date" in meta else meta.get("age", "0")
    meta = {name: value for name, value in meta.items() if name != "date"} | {"age": age}
    if status == NOT_MODIFIED:
        return Response(NOT_MODIFIED, not_modified_headers(meta) | {"age": age})
    headers = {**meta, "accept-ranges": "bytes"}
    body = b"" if request.method == "HEAD" else body
    if request.range is None or not range_applies(request.headers, etag=etag, last_modified=last_modified):
        return Response(200, headers, body)
    size_bytes = int(meta["content-length"])
    if (part := request.range.within(size_bytes)) is None:
        return range_not_satisfiable(request.method, size_bytes, etag=etag)
    first, end = part
    if not size_bytes:  # a 206 cannot say which bytes an empty one has
        return Response(200, headers, body)
    headers |= {"content-range": f"bytes {first}-{end - 1}/{size_bytes}", "content-length": str(end - first)}
    return Response(206, headers, body[first:end])
