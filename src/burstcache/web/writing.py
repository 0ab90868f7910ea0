"""Writing: parsing and validation of PUT, DELETE and POST requests. Invalid requests never reach S3.

The front door rejects headers and parameters that only S3 supports, and never ignores them. An object written without
its `x-amz-acl`, or over a version that a condition should protect, is worse than no object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    CopiesNotDroppedError,
    ObjectNotFoundError,
    OriginError,
    OriginUnavailableError,
    PreconditionFailedError,
    RefusedRequestError,
    WriteConflictError,
)
from burstcache.web.dates import is_sent_date
from burstcache.web.front_door import Arrival
from burstcache.web.headers import is_safe
from burstcache.web.keys import requested_key
from burstcache.web.methods import READS, WRITES, check_method
from burstcache.web.prefixes import check_prefix
from burstcache.web.response import Response, error_response

# Lambda accepts events of up to 6,291,456 bytes. Base64 encodes three bytes as four. The request line and headers take
# up to 10,240 bytes, which JSON repeats and may escape. Reads have the same limit.
MAX_BODY_BYTES = 4 * 1024 * 1024

_USER_METADATA = "x-amz-meta-"
# Headers forwarded to S3.
_NAMES = {
    "content-type": "content_type",
    "cache-control": "cache_control",
    "content-disposition": "content_disposition",
    "content-encoding": "content_encoding",
    "content-language": "content_language",
    "content-md5": "content_md5",
    "expires": "expires",
    "if-match": "if_match",
    "if-none-match": "if_none_match",
}
# Headers that S3 supports but the front door does not. Other `x-amz-…` headers are also unsupported, except signatures.
_UNSUPPORTED = frozenset({"content-range", "if-modified-since", "if-unmodified-since"})
_NOT_OF_DELETIONS = frozenset({"content-md5", "if-none-match"})
_OF_AMAZON = "x-amz-"
_OF_SIGNATURES = frozenset({"x-amz-date", "x-amz-security-token", "x-amz-content-sha256"})
_SIGNING_PARAMETERS = _OF_SIGNATURES | {
    f"x-amz-{name}" for name in ("algorithm", "credential", "expires", "signature", "signedheaders")
}
# Write errors, with the response's status, code and message.
_FAILURES: tuple[tuple[type[BurstcacheError], int, str, str], ...] = (
    (PreconditionFailedError, 412, "PreconditionFailed", "the condition does not hold: nothing is written"),
    (AccessDeniedError, 403, "AccessDenied", "S3 denies the write of {key!r}: nothing is written"),
    (ObjectNotFoundError, 404, "NoSuchKey", "there is no object {key!r}"),
    (
        OriginUnavailableError,
        503,
        "OriginUnavailable",
        "S3 has not confirmed the write; repeat it, or read with Cache-Control: no-cache",
    ),
    (
        CopiesNotDroppedError,
        503,
        "CopiesNotDropped",
        "S3 has the write, but caches may serve the old object for some seconds; repeat the write to invalidate them"
        " (a conditional one with this response's ETag as If-Match)",
    ),
)


class WriteHeaders(TypedDict, total=False):
    """Headers of a write: stored metadata, checksum, and conditions on the existing object."""

    content_type: str
    cache_control: str
    content_disposition: str
    content_encoding: str
    content_language: str
    content_md5: str  # of the body, in base64, verified by S3
    expires: str  # an HTTP date in the current format
    metadata: Mapping[str, str]  # user-defined, names in lower case without `x-amz-meta-`
    if_match: str  # write only if the object has this ETag
    if_none_match: str  # `*`: write only if the object does not exist


@dataclass(frozen=True, slots=True)
class Write:
    """A PUT, a DELETE, or a POST that requests a presigned URL for a PUT."""

    method: str
    key: str
    headers: WriteHeaders
    body: bytes


def read_write(arrival: Arrival, body: bytes, *, prefixes: Sequence[str] = ()) -> Write:
    """Parse and validate a write request.

    Args:
        arrival: The request as the front door sent it.
        body: The request's body.
        prefixes: Patterns of the key prefixes that a token's claims permit. Empty: all keys are permitted.

    Raises:
        RefusedRequestError: 400, 403, 404, 405 or 413. The message names the accepted values.
    """
    key = requested_key(arrival.path, arrival.query)
    if prefixes:
        check_prefix(key, prefixes, arrival.claims)
    method = arrival.method
    check_method(method, WRITES, allowed=(*READS, *WRITES))
    _check_query(arrival.query)
    _check_headers(arrival)
    if method == "POST" and body:
        message = "POST requests a URL and takes no body; accepted: PUT, here or to that URL"
        raise RefusedRequestError(400, "UnexpectedBody", message)
    if len(body) > MAX_BODY_BYTES:
        accepted = f"up to {MAX_BODY_BYTES:,}, or a PUT to a URL that POST gives"
        message = f"the body has {len(body):,} bytes; accepted: {accepted}"
        raise RefusedRequestError(413, "EntityTooLarge", message)
    return Write(method, key, _write_headers(arrival.headers), body)


def sent_headers(headers: WriteHeaders) -> dict[str, str]:
    """Convert write headers to HTTP headers, names in lower case."""
    sent = {header: str(headers[name]) for header, name in _NAMES.items() if name in headers}  # type: ignore[literal-required]
    return sent | {f"{_USER_METADATA}{name}": value for name, value in headers.get("metadata", {}).items()}


def failed_write(error: BurstcacheError, *, key: str) -> Response:
    """Return the response to a write that S3 rejected, or after which stale copies may remain.

    Raises:
        BurstcacheError: The error itself, if it is not a write error.
    """
    for kind, status, code, message in _FAILURES:
        if isinstance(error, kind):
            headers = {"retry-after": "1"} if status >= 500 else {}
            if isinstance(error, CopiesNotDroppedError) and error.etag:
                headers["etag"] = error.etag
            return error_response(status, code, message.format(key=key), headers=headers)
    if isinstance(error, OriginError) and 400 <= error.status < 500:
        message, headers = f"S3 answered {error.status} {error.code}", {}
        if isinstance(error, WriteConflictError):
            message, headers = "another write is in progress: nothing is written; repeat it", {"retry-after": "1"}
        return error_response(error.status, error.code, message, headers=headers)
    raise error


def _check_query(query: Sequence[tuple[str, str]]) -> None:
    for name, _ in query:
        # To S3, `?tagging` and `?acl` are other operations, and `?x-amz-acl` equals the header.
        if name != "key" and name.lower() not in _SIGNING_PARAMETERS:
            message = f"the parameter {name[:40]!r} is not supported by writes; accepted: key"
            raise RefusedRequestError(400, "UnsupportedParameter", message)


def _check_headers(arrival: Arrival) -> None:
    for name, value in arrival.headers.items():
        is_metadata = name.startswith(_USER_METADATA)
        is_of_amazon = name.startswith(_OF_AMAZON) and not is_metadata and name not in _OF_SIGNATURES
        if name in _UNSUPPORTED or is_of_amazon or (name in _NOT_OF_DELETIONS and arrival.method == "DELETE"):
            accepted = f"{', '.join(_NAMES)} and {_USER_METADATA}*; no Content-MD5 or If-None-Match with DELETE"
            message = f"the header {name[:100]!r} is not supported by {arrival.method}; accepted: {accepted}"
            raise RefusedRequestError(400, "UnsupportedHeader", message)
        if (name in _NAMES or is_metadata) and not (is_safe(value) and (value.strip() or is_metadata)):
            raise RefusedRequestError(400, "MalformedHeader", f"{name[:100]}: only printable ASCII is accepted")
        if name == _USER_METADATA:
            raise RefusedRequestError(400, "MalformedHeader", f"{name}: the name of the metadata is empty")
        if name == "expires" and not is_sent_date(value.strip()):
            accepted = "such as Sun, 06 Nov 1994 08:49:37 GMT"
            raise RefusedRequestError(400, "MalformedHeader", f"expires: {value[:100]!r}; accepted: a date {accepted}")
        if name == "if-none-match" and value.strip() != "*":  # the only value supported by S3
            raise RefusedRequestError(
                400, "MalformedHeader", f"if-none-match: {value[:100]!r}; a write accepts '*' only"
            )


def _write_headers(headers: Mapping[str, str]) -> WriteHeaders:
    standard = {name: headers[header].strip() for header, name in _NAMES.items() if header in headers}
    metadata = {
        name.removeprefix(_USER_METADATA): value.strip()
        for name, value in headers.items()
        if name.startswith(_USER_METADATA)
    }
    return cast(WriteHeaders, standard | ({"metadata": metadata} if metadata else {}))
