"""Requests as S3's clients send them: a read by any of them is one that the cache can answer."""

from __future__ import annotations

import pytest

from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import changed_keys, object_read, parse_target

_SIGNED = {
    "authorization": "AWS4-HMAC-SHA256 …",
    "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    "x-amz-date": "20261128T014019Z",
}
_SDK = {"amz-sdk-invocation-id": "71BA4576", "amz-sdk-request": "attempt=1", "user-agent": "aws-sdk"}
# Headers of each client's GetObject beside host and signature, as received.
READS = {
    "pyarrow": _SDK | {"accept": "*/*", "content-type": "application/xml", "x-amz-api-version": "2006-03-01"},
    "boto3": _SDK | {"accept-encoding": "identity", "x-amz-checksum-mode": "ENABLED"},
    "aws-sdk-js": _SDK | {"x-amz-user-agent": "aws-sdk-js/3.1175.0", "x-amz-checksum-mode": "ENABLED"},
    "curl": {"accept": "*/*", "user-agent": "curl/7.88.1"},
}


def read_by(client: str, **others: str) -> HttpRequest:
    headers = (
        _SIGNED
        | {"host": "127.0.0.1:9000"}
        | READS[client]
        | {name.replace("_", "-"): value for name, value in others.items()}
    )
    return HttpRequest(b"GET", b"/bucket/key", [(name.encode(), value.encode()) for name, value in headers.items()])


@pytest.mark.parametrize("client", READS)
def test_a_read_as_a_client_sends_it_is_answered_by_the_cache(client: str) -> None:
    target = parse_target(b"/bucket/key?x-id=GetObject", "")

    whole, part = (object_read(each, target) for each in (read_by(client), read_by(client, range="bytes=0-9")))

    assert whole is not None
    assert whole.is_plain
    assert part is not None
    assert part.range == "bytes=0-9"


@pytest.mark.parametrize("client", READS)
def test_a_read_with_a_header_that_alters_the_response_is_not(client: str) -> None:
    request = read_by(client, x_amz_server_side_encryption_customer_algorithm="AES256")

    assert object_read(request, parse_target(b"/bucket/key", "")) is None


def test_a_key_without_a_bucket_is_refused_before_s3_sees_it() -> None:
    with pytest.raises(S3Error, match="InvalidBucketName"):
        parse_target(b"//key", "")
    assert parse_target(b"//key", "bucket").key == "/key"


@pytest.mark.parametrize(
    ("method", "target", "source", "expected"),
    [
        (b"PUT", b"/b/new?renameObject", "old", {"new", "old"}),
        (b"PUT", b"/b/new?renameObject", "a%2Fold%20%C3%A4", {"new", "a/old \u00e4"}),
        (b"PUT", b"/b/new?renameObject", "/b/a/old", {"new", "/b/a/old", "b/a/old", "a/old"}),
        (b"PUT", b"/b/new?renameObject", "b/old", {"new", "b/old", "old"}),
        (b"PUT", b"/b/new?renameObject", "a+b", {"new", "a+b", "a b"}),
        (b"PUT", b"/b/new?renameObject&x-amz-rename-source=old", "", {"new", "old"}),
        (b"PUT", b"/b/new", "old", {"new"}),
        (b"GET", b"/b/new?renameObject", "old", set()),
        (b"PUT", b"/b?renameObject", "old", set()),
    ],
)
def test_a_rename_changes_its_source_too(method: bytes, target: bytes, source: str, expected: set[str]) -> None:
    headers = [(b"x-amz-rename-source", source.encode())] if source else []

    assert set(changed_keys(HttpRequest(method, target, headers), parse_target(target, ""))) == expected
