"""Front doors: what HTTP API and load balancer hand over, and what they take back."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from burstcache.core.errors import RefusedRequestError
from burstcache.web.front_door import answer, arrival, body_in
from burstcache.web.response import Response


def http_api(path: str, query: str = "", stage: str = "$default") -> dict[str, Any]:
    context = {"http": {"method": "GET", "path": path}, "requestId": "id-1=", "stage": stage}
    return {"version": "2.0", "rawPath": path, "rawQueryString": query, "headers": {}, "requestContext": context}


def load_balancer(path: str, **more: Any) -> dict[str, Any]:
    return {"requestContext": {"elb": {}}, "httpMethod": "GET", "path": path, "headers": {}, **more}


def test_path_from_an_http_api_is_not_decoded_again() -> None:
    assert arrival(http_api("/objects/100%25 ü")).path == "/objects/100%25 ü"


def test_query_from_an_http_api_is_decoded_once() -> None:
    assert arrival(http_api("/objects", "key=a%3Fb%2525%C3%BC")).query == (("key", "a?b%25ü"),)


def test_named_stage_is_no_part_of_the_path() -> None:
    assert arrival(http_api("/live/objects/a", stage="live")).path == "/objects/a"


def test_path_and_query_from_a_load_balancer_are_decoded_once() -> None:
    came = arrival(load_balancer("/objects/100%2525%20%C3%BC", queryStringParameters={"key": "a%2Bb+c"}))

    assert (came.path, came.query) == ("/objects/100%25 ü", (("key", "a+b c"),))


def test_multi_value_mode_of_a_load_balancer_is_understood_and_answered() -> None:
    event = load_balancer("/x", multiValueHeaders={"Range": ["bytes=0-1"], "If-Match": ['"a"', '"b"']})
    event["multiValueQueryStringParameters"] = {"key": ["a", "b"]}

    came, message = arrival(event), answer(event, Response(200, {"etag": '"e"'}, b"x"))

    assert came.headers == {"range": "bytes=0-1", "if-match": '"a", "b"'}
    assert came.query == (("key", "a"), ("key", "b"))
    assert message["multiValueHeaders"] == {"etag": ['"e"']}
    assert message["statusDescription"] == "200 OK"


@pytest.mark.parametrize(
    "event",
    [
        load_balancer("/objects/%FF"),
        load_balancer("/objects", queryStringParameters={"key": "%FF"}),
        http_api("/objects", "key=%FF"),
    ],
)
def test_what_is_not_utf_8_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(RefusedRequestError, match="not UTF-8; accepted"):
        arrival(event)


@pytest.mark.parametrize("event", [None, {}, [], {"version": "2.0"}, {"requestContext": 1}, {"Records": []}])
def test_event_of_no_front_door_is_refused(event: Any) -> None:
    with pytest.raises(RefusedRequestError, match="accepted: HTTP API"):
        arrival(event)


def test_body_is_base64_whatever_its_bytes() -> None:
    body = bytes(range(256))

    message = answer(http_api("/objects/a"), Response(200, {}, body))

    assert message["isBase64Encoded"] is True
    assert base64.b64decode(message["body"]) == body


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ({}, b""),
        ({"body": None}, b""),
        ({"body": "", "isBase64Encoded": False}, b""),
        ({"body": "AP8Q", "isBase64Encoded": True}, b"\x00\xff\x10"),
        ({"body": "ü", "isBase64Encoded": False, "headers": {"Content-Length": "2"}}, "ü".encode()),
        ({"body": "ü", "isBase64Encoded": False, "headers": {"transfer-encoding": "chunked"}}, "ü".encode()),
    ],
)
def test_a_body_is_what_the_client_sent(event: dict[str, Any], body: bytes) -> None:
    assert body_in(event) == body


@pytest.mark.parametrize(
    ("body", "length"),
    [("caf\ufffd", "4"), ("caf\ufffd", "6"), ("café", "4"), ("\udc80", "1")],
    ids=["replaced", "replaced-by-as-many", "taken-for-latin-1", "surrogate"],
)
def test_text_that_may_not_be_what_the_client_sent_is_refused(body: str, length: str) -> None:
    with pytest.raises(RefusedRequestError, match="not UTF-8; accepted") as refused:
        body_in({"body": body, "isBase64Encoded": False, "headers": {"content-length": length}})

    assert (refused.value.status, refused.value.code) == (400, "BodyNotUtf8")


def test_a_body_that_is_not_what_it_says_is_refused() -> None:
    with pytest.raises(RefusedRequestError, match="not base64"):
        body_in({"body": "!", "isBase64Encoded": True})
