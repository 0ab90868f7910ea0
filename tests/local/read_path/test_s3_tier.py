"""Reads that S3 serves, through the proxy's handler."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from support.answers import body_of, error_of
from support.read_path import Cloud, Environment

BODY = b"0123456789"
ETAG = f'"{hashlib.md5(BODY).hexdigest()}"'


def test_get_answers_with_the_object_and_its_own_headers(cloud: Cloud) -> None:
    kept = {"CacheControl": "max-age=9", "ContentDisposition": "inline", "ContentEncoding": "br", "ContentType": "a/b"}
    cloud.put("a/b c", BODY, Metadata={"colour": "red"}, ContentLanguage="de", **kept)

    message = cloud.get("a/b c")

    expected = {
        "etag": ETAG,
        "content-length": "10",
        "content-type": "a/b",
        "content-encoding": "br",
        "content-language": "de",
        "content-disposition": "inline",
        "cache-control": "max-age=9",
        "x-amz-meta-colour": "red",
        "x-cache-tier": "s3",
        "x-cache": "miss",
        "accept-ranges": "bytes",
    }
    assert (message["statusCode"], body_of(message)) == (200, BODY)
    assert expected.items() <= message["headers"].items()
    assert "last-modified" in message["headers"]


def test_head_gives_the_length_and_no_body(cloud: Cloud, reported: list[Any]) -> None:
    cloud.put("a", BODY)

    message = cloud.get("a", "HEAD")

    assert (message["statusCode"], message["body"], message["headers"]["content-length"]) == (200, "", "10")
    assert reported == []


@pytest.mark.parametrize(
    ("headers", "status", "body"),
    [
        ({"range": "bytes=2-4"}, 206, b"234"),
        ({"range": "bytes=-3"}, 206, b"789"),
        ({"range": "bytes=2-4", "if-range": ETAG}, 206, b"234"),
        ({"range": "bytes=2-4", "if-range": '"other"'}, 200, BODY),
        ({"range": "bytes=99-", "if-range": '"other"'}, 200, BODY),
        ({"range": "bytes=0-1,3-4"}, 200, BODY),
        ({"range": "lines=1-2"}, 200, BODY),
        ({"if-none-match": ETAG}, 304, b""),
        ({"if-match": ETAG}, 200, BODY),
        ({"if-modified-since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 200, BODY),
        ({"if-modified-since": "nonsense"}, 200, BODY),
        ({"range": "nonsense"}, 200, BODY),
    ],
)
def test_ranges_and_conditions_are_served_and_reported(
    cloud: Cloud, reported: list[Any], headers: dict[str, str], status: int, body: bytes
) -> None:
    cloud.put("a", BODY)

    message = cloud.get("a", **{name.replace("-", "_"): value for name, value in headers.items()})

    assert (message["statusCode"], body_of(message)) == (status, body)
    assert [(event["key"], event["request_id"], event["etag"]) for event in reported] == [("a", "request-1=", ETAG)]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"if_match": '"x"'}, 412, "PreconditionFailed"),
        ({"range": "bytes=10-"}, 416, "InvalidRange"),
        ({"range": "bytes=10-", "if_range": ETAG}, 416, "InvalidRange"),
        ({"if_none_match": "ü"}, 400, "MalformedHeader"),
    ],
)
def test_reads_that_fail_say_why_and_are_not_reported(
    cloud: Cloud, reported: list[Any], headers: dict[str, str], status: int, code: str
) -> None:
    cloud.put("a", BODY)

    message = cloud.get("a", **headers)

    assert (message["statusCode"], error_of(message), reported) == (status, code, [])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_absent_object_is_a_404_and_not_reported(cloud: Cloud, reported: list[Any], method: str) -> None:
    message = cloud.get("nowhere", method)

    assert (message["statusCode"], reported) == (404, [])
    assert message["body"] == "" if method == "HEAD" else error_of(message) == "NoSuchKey"


def test_416_names_the_size(cloud: Cloud) -> None:
    cloud.put("a", BODY)

    assert cloud.get("a", range="bytes=99-")["headers"]["content-range"] == "bytes */10"


def test_large_object_is_redirected_to_s3_and_not_reported(
    cloud: Cloud, environment: Environment, reported: list[Any]
) -> None:
    environment(MAX_OBJECT_BYTES="9")
    cloud.put("a ü", BODY)

    message = cloud.get("a ü")

    assert (message["statusCode"], message["headers"]["cache-control"], reported) == (307, "no-store", [])
    assert "X-Amz-Signature" in message["headers"]["location"]
    assert "a%20%C3%BC" in message["headers"]["location"]


def test_part_of_a_large_object_that_fits_comes_through_the_proxy(
    cloud: Cloud, environment: Environment, reported: Any
) -> None:
    environment(MAX_OBJECT_BYTES="9")
    cloud.put("a", BODY)

    fits, is_too_large = cloud.get("a", range="bytes=0-8"), cloud.get("a", range="bytes=0-9")

    assert (fits["statusCode"], body_of(fits), is_too_large["statusCode"], reported) == (206, BODY[:9], 307, [])


def test_object_of_exactly_the_limit_comes_through_the_proxy(cloud: Cloud, environment: Environment) -> None:
    environment(MAX_OBJECT_BYTES="10")
    cloud.put("a", BODY)

    assert body_of(cloud.get("a")) == BODY


def test_head_of_a_large_object_is_answered_by_the_proxy(cloud: Cloud, environment: Environment) -> None:
    environment(MAX_OBJECT_BYTES="9")
    cloud.put("a", BODY)

    message = cloud.get("a", "HEAD")

    assert (message["statusCode"], message["headers"]["content-length"]) == (200, "10")


def test_report_of_a_part_gives_the_size_of_the_whole_object(cloud: Cloud, reported: list[Any]) -> None:
    cloud.put("a", BODY)

    cloud.get("a", range="bytes=0-1")

    assert reported[0]["size_bytes"] == 10


def test_empty_object_is_served(cloud: Cloud) -> None:
    cloud.put("empty", b"")

    message = cloud.get("empty")

    assert (message["statusCode"], message["body"], message["headers"]["content-length"]) == (200, "", "0")


def test_absent_bucket_is_a_404(cloud: Cloud, environment: Environment) -> None:
    environment(BUCKET_NAME="another-bucket")

    message = cloud.get("a")

    assert (message["statusCode"], error_of(message)) == (404, "NoSuchBucket")


def test_key_that_cannot_be_a_path_is_read_by_query(cloud: Cloud) -> None:
    cloud.put("a?b/../c", BODY)
    context = {"http": {"method": "GET"}, "requestId": "1"}
    event = {"version": "2.0", "rawPath": "/objects", "rawQueryString": "key=a%3Fb/../c", "requestContext": context}

    assert body_of(cloud.environment.proxy.handle(event, None)) == BODY


def test_write_is_seen_by_the_next_read(cloud: Cloud) -> None:
    cloud.put("a", b"old")
    cloud.get("a")
    cloud.put("a", b"new")

    assert body_of(cloud.get("a")) == b"new"
    cloud.delete("a")
    assert cloud.get("a")["statusCode"] == 404
