"""Requests that write: what goes to S3 with them, and all that is refused before S3 is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    CopiesNotDroppedError,
    ObjectNotFoundError,
    OriginError,
    OriginUnavailableError,
    PreconditionFailedError,
    RefusedRequestError,
    RelayDownError,
    WriteConflictError,
)
from burstcache.web.front_door import Arrival
from burstcache.web.writing import MAX_BODY_BYTES, failed_write, read_write, sent_headers
from burstcache_local.front.http_events import HttpRequest, Route, http_api_event

_KEPT = {
    "content-type": "text/html",
    "cache-control": "max-age=60",
    "content-disposition": 'attachment; filename="a b"',
    "content-encoding": "gzip",
    "content-language": "de",
    "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==",
    "expires": "Sun, 06 Nov 1994 08:49:37 GMT",
    "x-amz-meta-colour": "red",
    "if-match": '"e"',
}
# API Gateway's, for the line of a request and its headers. HTTP API quotas, API Gateway Developer Guide.
_MOST_HEADERS_BYTES = 10_240
_MOST_EVENT_BYTES = 6 * 1024 * 1024  # Lambda quotas, Lambda Developer Guide: a synchronous invocation's payload


def arrived(method: str = "PUT", path: str = "/objects/a", query: str = "", **headers: str) -> Arrival:
    pairs = tuple((name, "") for name in query.split("&") if name)
    return Arrival(method, path, pairs, {name.replace("_", "-"): value for name, value in headers.items()}, "1")


def refusal(request: Arrival, body: bytes = b"", **more: Any) -> RefusedRequestError:
    with pytest.raises(RefusedRequestError) as refused:
        read_write(request, body, **more)
    return refused.value


def test_what_s3_keeps_with_an_object_goes_to_it() -> None:
    write = read_write(Arrival("PUT", "/objects/a/b c", (), {**_KEPT, "user-agent": "curl"}, "1"), b"body")

    assert (write.method, write.key, write.body) == ("PUT", "a/b c", b"body")
    assert write.headers == {
        "content_type": "text/html",
        "cache_control": "max-age=60",
        "content_disposition": 'attachment; filename="a b"',
        "content_encoding": "gzip",
        "content_language": "de",
        "content_md5": "1B2M2Y8AsgTpgAmY7PhCfg==",
        "expires": "Sun, 06 Nov 1994 08:49:37 GMT",
        "if_match": '"e"',
        "metadata": {"colour": "red"},
    }
    assert sent_headers(write.headers) == _KEPT


def test_headers_that_sign_a_request_are_no_part_of_the_object() -> None:
    signed = {"x-amz-date": "20261122T000000Z", "x-amz-security-token": "t", "x-amz-content-sha256": "0"}

    names = ("Algorithm", "Credential", "Date", "Expires", "Security-Token", "Signature", "SignedHeaders")
    query = tuple((f"X-Amz-{name}", "0") for name in names)
    assert read_write(Arrival("PUT", "/objects/a", query, signed, "1"), b"").headers == {}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-amz-acl", "public-read"),
        ("x-amz-copy-source", "/other/key"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-server-side-encryption", "AES256"),
        ("content-range", "bytes 0-1/2"),
        ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_a_header_that_s3_would_heed_is_refused_and_not_left_out(method: str, header: str, value: str) -> None:
    refused = refusal(Arrival(method, "/objects/a", (), {header: value}, "1"))

    assert (refused.status, refused.code) == (400, "UnsupportedHeader")
    assert header in refused.message
    assert method in refused.message


@pytest.mark.parametrize(
    "query", ["tagging", "acl", "uploadId", "partNumber", "versionId", "x", "x-amz-acl", "X-Amz-Storage-Class"]
)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_a_parameter_that_makes_it_another_operation_is_refused(method: str, query: str) -> None:
    refused = refusal(arrived(method, query=query))

    assert (refused.status, refused.code) == (400, "UnsupportedParameter")
    assert repr(query) in refused.message


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"if_none_match": '"e"'}, "'*' only"),
        ({"if_match": ""}, "if-match"),
        ({"if_match": " "}, "if-match"),
        ({"content_type": "a\r\nb"}, "content-type"),
        ({"x_amz_meta_a": "ü"}, "x-amz-meta-a"),
        ({"x_amz_meta_": "a"}, "x-amz-meta-: the name of the metadata is empty"),
        ({"expires": "0"}, "expires: '0'; accepted: a date such as"),
        ({"expires": "Mon, 06 Nov 1994 08:49:37 GMT"}, "expires"),  # that was a Sunday
        ({"expires": "Sunday, 06-Nov-94 08:49:37 GMT"}, "expires"),
    ],
)
def test_a_value_that_is_malformed_is_named(headers: dict[str, str], named: str) -> None:
    refused = refusal(arrived(**headers))

    assert (refused.status, refused.code) == (400, "MalformedHeader")
    assert named in refused.message


@pytest.mark.parametrize("headers", [{"if_none_match": "*"}, {"content_md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}])
def test_what_a_deletion_does_not_know_is_refused(headers: dict[str, str]) -> None:
    assert refusal(arrived("DELETE", **headers)).code == "UnsupportedHeader"


@pytest.mark.parametrize("method", ["GET", "PATCH", "OPTIONS", ""])
def test_another_method_is_none_of_a_writer(method: str) -> None:
    refused = refusal(arrived(method))

    assert (refused.status, refused.headers) == (405, {"allow": "GET, HEAD, PUT, DELETE, POST"})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
@pytest.mark.parametrize("key", ["users/alice/a", "users/bob", "users//a", "users/bob%2Fa", "public/a"])
def test_a_bearer_writes_under_its_prefixes_alone(method: str, key: str) -> None:
    bob = Arrival(method, f"/objects/{key}", (), {}, "1", {"sub": "bob"})

    refused = refusal(bob, prefixes=("users/{sub}/",))

    assert (refused.status, refused.code) == (403, "PrefixNotAllowed")


def test_a_bearer_without_the_claim_writes_nothing() -> None:
    assert refusal(arrived(path="/objects/users//a"), prefixes=("users/{sub}/",)).status == 403


def test_a_body_above_the_limit_is_refused_with_the_limit_and_the_way() -> None:
    read_write(arrived(), b"\0" * MAX_BODY_BYTES)
    refused = refusal(arrived(), b"\0" * (MAX_BODY_BYTES + 1))

    assert (refused.status, refused.code) == (413, "EntityTooLarge")
    assert "4,194,305 bytes; accepted: up to 4,194,304" in refused.message
    assert "a URL that POST gives" in refused.message


def test_a_body_of_the_limit_fits_into_an_event_with_the_most_of_headers() -> None:
    # The line of the request is in an event three times, its headers once; JSON doubles a quote.
    half = _MOST_HEADERS_BYTES // 2
    headers = (("x", '"' * half), ("content-type", "application/octet-stream"))
    request = HttpRequest("PUT", "/objects/" + "%22" * (half // 3), "", headers, b"\xff" * MAX_BODY_BYTES, "192.0.2.1")

    event = http_api_event(request, Route.parse("PUT /objects/{key+}", "writer"), {}, api_id="0123456789")

    assert len(json.dumps(event).encode()) < _MOST_EVENT_BYTES


def test_who_asks_for_a_url_sends_no_body() -> None:
    assert refusal(arrived("POST"), b"body").code == "UnexpectedBody"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (PreconditionFailedError("no"), 412, "PreconditionFailed"),
        (AccessDeniedError("no"), 403, "AccessDenied"),
        (ObjectNotFoundError("no", status=404, code="NoSuchKey"), 404, "NoSuchKey"),
        (OriginError("no", status=400, code="MetadataTooLarge"), 400, "MetadataTooLarge"),
        (WriteConflictError("no", status=409, code="OperationAborted"), 409, "OperationAborted"),
        (OriginUnavailableError("no", status=503, code="SlowDown"), 503, "OriginUnavailable"),
        (OriginUnavailableError("no"), 503, "OriginUnavailable"),
        (CopiesNotDroppedError("secrets of a function", etag='"e"'), 503, "CopiesNotDropped"),
    ],
)
def test_a_failure_has_s3s_status_and_code_or_says_what_has_happened(
    error: BurstcacheError, status: int, code: str
) -> None:
    response = failed_write(error, key="a {b}")

    assert response.status == status
    assert json.loads(response.body)["error"]["code"] == code
    assert "secrets" not in response.body.decode()
    assert ("retry-after" in response.headers) == (status == 409 or status >= 500)


def test_who_is_to_repeat_a_write_gets_the_etag_that_it_has_written() -> None:
    response = failed_write(CopiesNotDroppedError("no", etag='"e"'), key="a")

    assert response.headers["etag"] == '"e"'
    assert "If-Match" in response.body.decode()
    assert "etag" not in failed_write(CopiesNotDroppedError("no"), key="a").headers


def test_what_is_no_failure_of_a_write_is_a_defect() -> None:
    with pytest.raises(RelayDownError):
        failed_write(RelayDownError("no"), key="a")
