"""Against a deployed stack, opt-in: `BURSTCACHE_E2E_STACK=name pytest tests/e2e`. It costs a few cents.

What no emulator can tell comes first: permissions, time-outs, and what AWS does where its documentation is silent.
"""

from __future__ import annotations

import os
import urllib.request
import uuid
from collections.abc import Iterator
from http.client import HTTPResponse

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.executions import execution_arn
from burstcache.adapters.key_table import KeyTable
from burstcache.core.keys import key_hash
from burstcache.core.messages.self_test import SELF_TEST, SelfTest, StackTestResult, problems
from burstcache_cli.operate import invoke, ping_redis
from burstcache_cli.stack import Stack, find_stack
from support.waiting import until

pytestmark = pytest.mark.skipif(
    "BURSTCACHE_E2E_STACK" not in os.environ, reason="needs a deployed stack: set BURSTCACHE_E2E_STACK to its name"
)
_BODY = b"burst" * 1000


@pytest.fixture(scope="module")
def stack() -> Stack:
    return find_stack(stack_name=os.environ["BURSTCACHE_E2E_STACK"])


@pytest.fixture
def key(stack: Stack) -> Iterator[str]:
    """An object that no other test reads."""
    name, s3, bucket = f"e2e/{uuid.uuid4()}", stack.client("s3"), stack.output("BucketName")
    s3.put_object(Bucket=bucket, Key=name, Body=_BODY, ContentType="text/x-burst")
    yield name
    s3.delete_object(Bucket=bucket, Key=name)


def _ask(stack: Stack, key: str, method: str = "GET") -> HTTPResponse:
    url = f"{stack.output('ApiUrl').rstrip('/')}/objects/{key}"
    answer: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=35)
    return answer


def _serves(stack: Stack, key: str, tier: str) -> bool:
    answer = _ask(stack, key)
    assert answer.read() == _BODY
    return answer.headers["X-Cache-Tier"] == tier


def test_every_part_is_reached_from_where_it_is_needed(stack: Stack) -> None:
    tested: StackTestResult = invoke(stack, "SelfTestFunctionName", SelfTest(op=SELF_TEST, run=uuid.uuid4().hex))

    assert problems(tested) == []


def test_head_has_the_length_over_the_front_door(stack: Stack, key: str) -> None:
    answer = _ask(stack, key, "HEAD")

    assert answer.headers["Content-Length"] == str(len(_BODY))
    assert answer.headers["Content-Type"] == "text/x-burst"


def test_key_goes_through_all_tiers_and_everything_stops(stack: Stack, key: str) -> None:
    """SendTask* permissions, the dual-stack endpoints, Valkey on the node: all of it, or this does not end."""
    until(lambda: _serves(stack, key, "lambda"))
    until(lambda: _serves(stack, key, "redis"))

    keys = KeyTable(stack.output("TableName"), stack.client("dynamodb"), SystemClock())
    until(lambda: (row := keys.read(key_hash(key))) is not None and row.phase == "s3")
    row = keys.read(key_hash(key))
    assert row is not None
    arn = execution_arn(stack.output("KeyLifecycleArn"), row.execution_name)
    until(lambda: stack.client("stepfunctions").describe_execution(executionArn=arn)["status"] == "SUCCEEDED")
    until(lambda: ping_redis(stack, "node-1").answer["instance"] == "stopped")  # or its task


def test_write_straight_to_s3_is_seen_while_a_cache_function_serves(stack: Stack, key: str) -> None:
    until(lambda: _serves(stack, key, "lambda"))
    stack.client("s3").put_object(Bucket=stack.output("BucketName"), Key=key, Body=b"new")

    until(lambda: _ask(stack, key).read() == b"new")
