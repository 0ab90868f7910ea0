"""Answers become objects, or the error that says why there is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from burstcache.client.objects import object_in
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
from burstcache.web.response import Response, error_response, precondition_failed, range_not_satisfiable

_HEADERS = {
    "etag": '"e"',
    "content-length": "4",
    "content-type": "a/b",
    "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT",
    "x-amz-meta-owner": "me",
    "x-cache-tier": "redis",
    "x-cache": "hit",
}


def test_an_object_has_what_s3_says_of_it() -> None:
    found = object_in("a", Response(200, _HEADERS, b"body"))

    assert (found.key, found.body, found.size_bytes, found.etag, found.content_type) == ("a", b"body", 4, '"e"', "a/b")
    assert found.last_modified == datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)
    assert found.metadata == {"owner": "me"}
    assert (found.tier, found.is_hit) == ("redis", True)


def test_a_part_knows_the_size_of_the_whole() -> None:
    found = object_in("a", Response(206, {**_HEADERS, "content-range": "bytes 0-3/1000"}, b"body"))

    assert found.size_bytes == 1000


def test_an_object_of_which_s3_says_little_has_little() -> None:
    found = object_in("a", Response(200, {"content-length": "0"}))

    assert (found.etag, found.content_type, found.last_modified, found.metadata) == ("", "", None, {})


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        (Response(304, {"etag": '"e"'}), NotModifiedError, "'a' is the one that the caller has"),
        (error_response(403, "AccessDenied", "…"), AccessDeniedError, "S3 refuses the read of 'a': AccessDenied"),
        (error_response(404, "NoSuchKey", "…", method="HEAD"), ObjectNotFoundError, "S3 has no object 'a'"),
        (precondition_failed("GET"), PreconditionFailedError, "'a' is not the one"),
        (range_not_satisfiable("GET", 4), RangeNotSatisfiableError, "no byte of the range; its size: 4"),
        (range_not_satisfiable("HEAD", None), RangeNotSatisfiableError, "its size: unknown"),
        (error_response(503, "OriginUnavailable", "try again"), OriginUnavailableError, "'a': try again"),
        (error_response(500, "InternalError", "…", method="HEAD"), OriginUnavailableError, "S3 answered 500"),
        (error_response(400, "InvalidURI", "S3 answered 400"), RefusedRequestError, "S3 answered 400"),
        (error_response(405, "MethodNotAllowed", "a marker"), OriginError, "a marker"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Response) else None,
)
def test_an_answer_without_an_object_is_an_error(
    response: Response, error: type[BurstcacheError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        object_in("a", response)

    assert type(raised.value) is error


def test_what_the_caller_needs_to_go_on_stands_in_the_error() -> None:
    with pytest.raises(NotModifiedError) as unchanged:
        object_in("a", Response(304, {"etag": '"e"'}))
    with pytest.raises(RangeNotSatisfiableError) as beyond:
        object_in("a", range_not_satisfiable("GET", 4, etag='"e"'))
    with pytest.raises(PreconditionFailedError) as another:
        object_in("a", precondition_failed("GET", etag='"e"'))

    assert {each.value.etag for each in (unchanged, beyond, another)} == {'"e"'}
    assert beyond.value.size_bytes == 4
