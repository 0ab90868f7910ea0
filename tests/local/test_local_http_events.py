"""Events that the local HTTP API and load balancer make of requests, and their conversion of answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from burstcache_local.front.http_events import (
    HttpRequest,
    Route,
    alb_answer,
    alb_event,
    decoded_path,
    http_api_answer,
    http_api_event,
    match_route,
)

ROUTES = sorted(
    (
        Route.parse(key, "f")
        for key in ("$default", "GET /objects/{key+}", "ANY /objects/{key+}", "GET /objects", "GET /objects/fixed")
    ),
    key=lambda route: route.rank,
)


def request(
    method: str = "GET", path: str = "/objects/a", query: str = "", body: bytes = b"", **headers: str
) -> HttpRequest:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return HttpRequest(method, path, query, fields, body, "127.0.0.1")


def api_event(came: HttpRequest) -> dict[str, Any]:
    found = match_route(ROUTES, came.method, decoded_path(came.raw_path))
    assert found
    return http_api_event(came, *found, api_id="api")


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("GET", "/objects/fixed", "GET /objects/fixed"),
        ("GET", "/objects/a/b", "GET /objects/{key+}"),
        ("PUT", "/objects/a/b", "ANY /objects/{key+}"),
        ("GET", "/objects", "GET /objects"),
        ("GET", "/objects/", "$default"),
        ("POST", "/objects", "$default"),
        ("GET", "/", "$default"),
    ],
)
def test_the_most_specific_route_wins(method: str, path: str, key: str) -> None:
    assert api_event(request(method, path))["routeKey"] == key


@pytest.mark.parametrize(
    ("raw", "path", "key"),
    [
        ("/objects/a%20b", "/objects/a b", "a b"),
        ("/objects/a%2Fb", "/objects/a/b", "a/b"),
        ("/objects/%C3%BC", "/objects/ü", "ü"),
        ("/objects/100%25", "/objects/100%", "100%"),
        ("/objects/what%3Fnow", "/objects/what", "what"),
        ("/objects/a+b", "/objects/a+b", "a+b"),
        ("/objects/a%0Ab", "/objects/a\nb", "a\nb"),
    ],
)
def test_an_http_api_hands_over_a_decoded_path_cut_at_a_question_mark(raw: str, path: str, key: str) -> None:
    event = api_event(request(path=raw))

    assert event["rawPath"] == path
    assert event["pathParameters"] == {"key": key}


def test_an_http_api_joins_what_comes_more_than_once_and_takes_the_cookies_out() -> None:
    fields = (("Accept", "a"), ("ACCEPT", "b"), ("Cookie", "x=1; y=2"), ("Host", "h.example:80"))
    event = api_event(HttpRequest("GET", "/objects", "k=1&k=2&e=&u=%C3%BC", fields, b"", "127.0.0.1"))

    assert event["headers"] == {"accept": "a,b", "host": "h.example:80"}
    assert event["cookies"] == ["x=1", "y=2"]
    assert event["queryStringParameters"] == {"k": "1,2", "e": "", "u": "ü"}
    assert event["rawQueryString"] == "k=1&k=2&e=&u=%C3%BC"


@pytest.mark.parametrize(
    ("kind", "body", "is_base64"),
    [
        ("text/plain", b"text", False),
        ("application/json", b"{}", False),
        ("application/octet-stream", b"text", True),
        ("text/plain", b"\xff\xfe", True),
        ("", b"text", True),
    ],
)
def test_a_body_that_is_not_text_is_base64(kind: str, body: bytes, is_base64: bool) -> None:
    event = api_event(request("PUT", body=body, content_type=kind))

    assert event["isBase64Encoded"] is is_base64
    assert (base64.b64decode(event["body"]) if is_base64 else event["body"].encode()) == body


def test_a_load_balancer_leaves_path_and_query_encoded() -> None:
    event = alb_event(request(path="/objects/a%20b", query="key=a%20b&x"), target_group_arn="arn", multi_value=False)

    assert event["path"] == "/objects/a%20b"
    assert event["queryStringParameters"] == {"key": "a%20b", "x": ""}
    assert event["body"] == ""
    assert event["requestContext"] == {"elb": {"targetGroupArn": "arn"}}


def test_a_load_balancer_hands_over_the_last_value_or_all_of_them() -> None:
    came = HttpRequest("GET", "/", "k=1&k=2", (("Accept", "a"), ("accept", "b")), b"", "127.0.0.1")

    one = alb_event(came, target_group_arn="arn", multi_value=False)
    all_of_them = alb_event(came, target_group_arn="arn", multi_value=True)

    assert (one["headers"], one["queryStringParameters"]) == ({"accept": "b"}, {"k": "2"})
    assert all_of_them["multiValueHeaders"] == {"accept": ["a", "b"]}
    assert all_of_them["multiValueQueryStringParameters"] == {"k": ["1", "2"]}
    assert "headers" not in all_of_them


def test_an_answer_is_decoded_and_keeps_its_cookies() -> None:
    returned = {
        "statusCode": 206,
        "headers": {"ETag": '"a"', "x-number": 7},
        "cookies": ["a=1", "b=2"],
        "body": base64.b64encode(b"\xff").decode(),
        "isBase64Encoded": True,
    }

    answer = http_api_answer(json.dumps(returned).encode())

    assert answer
    assert (answer.status, answer.body) == (206, b"\xff")
    assert answer.headers[:4] == (("etag", '"a"'), ("x-number", "7"), ("set-cookie", "a=1"), ("set-cookie", "b=2"))


def test_an_http_api_makes_a_200_of_what_has_no_status() -> None:
    answer = http_api_answer(b'{"a": 1}')

    assert answer
    assert (answer.status, json.loads(answer.body)) == (200, {"a": 1})


@pytest.mark.parametrize(
    "body", [b"no json", b'{"statusCode": "x"}', b'{"statusCode": 200, "body": "?", "isBase64Encoded": true}']
)
def test_an_answer_that_is_none_is_recognised(body: bytes) -> None:
    assert http_api_answer(body) is None
    assert alb_answer(body, multi_value=False) is None


def test_a_load_balancer_with_multi_value_headers_reads_only_those() -> None:
    body = json.dumps({"statusCode": 200, "headers": {"a": "1"}, "multiValueHeaders": {"b": ["2", "3"]}}).encode()

    one, several = (alb_answer(body, multi_value=multi_value) for multi_value in (False, True))

    assert one
    assert several
    assert (one.headers, several.headers) == ((("a", "1"),), (("b", "2"), ("b", "3")))
