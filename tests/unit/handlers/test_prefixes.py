"""The proxy under a token's prefixes: every method and part of an object is refused alike, and no tier is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burstcache.handlers.proxy import Proxy
from burstcache.serve.read_meter import ReadMeter
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.clock import ManualClock


class Asked:
    """Stands for the tiers: keeps what it was asked."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def read(self, request: Request) -> Response:
        self.keys.append(request.key)
        return Response(200, {"etag": '"e"', "content-length": "0"})


def answer(key: str, method: str, headers: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the answer to Bob, and the keys that tiers were asked for."""
    context = {
        "http": {"method": method, "path": f"/objects/{key}"},
        "authorizer": {"jwt": {"claims": {"sub": "bob"}, "scopes": None}},
        "requestId": "1",
    }
    event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": headers, "requestContext": context}
    clock, reader = ManualClock(), Asked()
    tiers: Any = reader
    return Proxy(tiers, clock, ReadMeter(clock), ("users/{sub}/",)).handle(event, None), reader.keys


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("headers", [{}, {"range": "bytes=0-0"}, {"if-none-match": "*"}, {"if-match": '"e"'}])
def test_what_is_outside_is_refused_whatever_the_request(method: str, headers: dict[str, str]) -> None:
    message, asked = answer("users/alice/x", method, headers)

    assert message["statusCode"] == 403
    assert asked == []
    if method != "HEAD":
        error = json.loads(message["body"])["error"]
        assert error["code"] == "PrefixNotAllowed"
        assert "'users/bob/'" in error["message"]


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("OPTIONS", 405)])
def test_what_is_inside_is_answered_as_without_prefixes(method: str, status: int) -> None:
    message, asked = answer("users/bob/x", method, {})

    assert message["statusCode"] == status
    assert asked == (["users/bob/x"] if status == 200 else [])
