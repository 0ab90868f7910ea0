"""DynamoDB endpoint: another engine of DynamoDB's API answers the tests' calls in place of moto.

`BURSTCACHE_TEST_DYNAMODB=HOST:PORT` names the engine. `make test-engines` starts one and sets the variable.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from burstcache_local.functions import ACCOUNT
from support.roles import REGION

VARIABLE = "BURSTCACHE_TEST_DYNAMODB"

Answer = tuple[int, Mapping[str, str], bytes]
Forward = Callable[[str, bytes], Answer]

_PREFIX = "DynamoDB_20120810."
_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    # Engines read account and region from here. None of them checks the signature.
    "Authorization": f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20260101/{REGION}/dynamodb/aws4_request,"
    " SignedHeaders=host, Signature=00",
    "X-Amz-Date": "20260101T000000Z",
}
# An engine closes a connection that was idle for 5 s. A request that is on its way then could be applied and lost.
_IDLE_S = 2.0

_idle: list[tuple[float, http.client.HTTPConnection]] = []  # by the time of their last use


def is_set() -> bool:
    """Return whether another engine than moto answers."""
    return VARIABLE in os.environ


def call(operation: str, body: bytes) -> Answer:
    """Send a request to the engine."""
    link = _connection()
    try:
        link.request("POST", "/", body, _HEADERS | {"X-Amz-Target": _PREFIX + operation})
        answer = link.getresponse()
        status, headers, text = answer.status, dict(answer.getheaders()), answer.read()
    except BaseException:
        link.close()
        raise
    _idle.append((time.monotonic(), link))
    return status, headers, text


def _connection() -> http.client.HTTPConnection:
    with suppress(IndexError):  # none is idle
        while True:
            used_at_s, link = _idle.pop()
            if time.monotonic() - used_at_s < _IDLE_S:
                return link
            link.close()
    host, _, port = os.environ[VARIABLE].partition(":")
    return http.client.HTTPConnection(host, int(port), timeout=30)


# Plugins replace it, to add to an engine what it lacks.
forward: Forward = call


def respond(request: Mapping[str, Any]) -> Answer:
    """Answer a boto3 request by the engine."""
    body = request["body"] if isinstance(request["body"], bytes) else request["body"].encode()
    operation = request["headers"]["X-Amz-Target"].removeprefix(_PREFIX)
    answer = forward(operation, body)
    if operation == "CreateTable" and answer[0] == 200:
        _wait_until_active(json.loads(body)["TableName"])
    return answer


def _wait_until_active(table: str) -> None:
    """Wait for a new table, since moto's are active at once."""
    asked = json.dumps({"TableName": table}).encode()
    while json.loads(call("DescribeTable", asked)[2])["Table"]["TableStatus"] != "ACTIVE":
        pass


def close() -> None:
    """Close all connections."""
    while _idle:
        _idle.pop()[1].close()


def wipe() -> None:
    """Delete all tables of the engine, and wait until they are gone."""
    for name in _tables():
        call("DeleteTable", json.dumps({"TableName": name}).encode())
    while _tables():  # no second deletion: dynalite would delete a new table of that name
        pass


def _tables() -> list[str]:
    names: list[str] = json.loads(call("ListTables", b"{}")[2])["TableNames"]
    return names


@functools.cache
def apply() -> None:
    """Let the engine answer all other clients in this process, too, which moto's DynamoDB would answer."""
    from moto.dynamodb.responses import DynamoHandler

    def call_action(self: Any) -> tuple[int, Mapping[str, str], str]:
        status, headers, body = respond({"headers": self.headers, "body": self.body})
        return status, headers, body.decode()

    DynamoHandler.call_action = call_action
