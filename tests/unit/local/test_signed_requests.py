"""Signed requests as they arrive: those that are not whole are refused as AWS does, and nothing fails."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest

from burstcache_local.faults import CallFault, Faults
from burstcache_local.iam.guard import Guard
from burstcache_local.signed_requests import refusing_malformed

Before = Callable[[WSGIApplication], WSGIApplication]


def moto(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    raise AssertionError("it must not be asked")


def guarded(application: WSGIApplication) -> WSGIApplication:
    return Guard("eu-central-1", documents=lambda role: []).before(application)


def with_faults(application: WSGIApplication) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        faults = Faults()
        with faults.inject_call_fault(CallFault("dynamodb", frozenset({"Scan"}))):
            return faults.before(application)(environ, start_response)

    return answer


@pytest.mark.parametrize(
    ("before", "body", "length"),
    [
        (guarded, b"{}", 2),
        (guarded, b"", 40),
        (guarded, b'{"TableName": "t", "Key": {"pk"', 60),
        (guarded, b'{"TableName": ', 14),
        (with_faults, b'{"TableName": ', 40),
    ],
    ids=["lacks a parameter", "nothing has come", "half has come", "no JSON", "half has come, during a fault"],
)
def test_a_request_that_is_not_whole_is_a_bad_request(
    before: Before, body: bytes, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guard, "role_of", lambda self, signer: signer)
    environ: dict[str, Any] = {
        "HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=reader/20260101/eu-central-1/dynamodb/aws4_request",
        "HTTP_X_AMZ_TARGET": "DynamoDB_20120810.GetItem",
        "CONTENT_LENGTH": str(length),
        "wsgi.input": io.BytesIO(body),
    }
    answered: list[str] = []

    def start_response(status: str, *rest: object) -> Any:
        answered.append(status)

    (content,) = refusing_malformed(before(moto))(environ, start_response)

    assert answered == ["400 Bad Request"]
    assert json.loads(content)["__type"] == "ValidationException"
