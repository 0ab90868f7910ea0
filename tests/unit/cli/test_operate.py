"""Operations reach the right function with the right event, and its answer becomes one line and an exit code."""

from __future__ import annotations

import io
import json
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from burstcache.core.table import Lease, NodeRow
from burstcache_cli import operate
from burstcache_cli.operate import OperationFailedError, node_view, nodes_text

NOW_US = 1_785_542_400_000_000


class FakeStack:
    """A stack whose functions answer what the test says, to the payload that the test expects."""

    def __init__(self, function: str, payload: Any, answer: Any, **response: Any) -> None:
        lambda_ = boto3.client("lambda", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
        self._client, self._stubber = lambda_, Stubber(lambda_)
        body = json.dumps(answer).encode()
        response["Payload"] = StreamingBody(io.BytesIO(body), len(body))
        sent = payload if payload is ANY else json.dumps(payload).encode()
        self._stubber.add_response("invoke", response, {"FunctionName": function, "Payload": sent})
        self._stubber.activate()

    def output(self, name: str) -> str:
        return {"SchedulerFunctionName": "s-scheduler", "RedisControlFunctionName": "s-redis-control"}[name]

    def client(self, service: str) -> Any:
        assert service == "lambda"
        return self._client


def redis_control(payload: Any, answer: Any, **response: Any) -> Any:
    return FakeStack("s-redis-control", payload, answer, **response)


def test_redis_start_holds_the_node() -> None:
    stack = redis_control({"op": "hold", "node": "node-1", "for_s": 60}, {"phase": "booting", "held_until_us": NOW_US})

    report = operate.start_redis(stack, "node-1", 60)

    assert report.text == "node-1 is booting, held until 2026-08-01T00:00:00Z"
    assert report.is_well


def test_redis_stop_releases_the_node() -> None:
    stack = redis_control({"op": "release", "node": "node-1"}, {"phase": "stopped"})

    assert operate.stop_redis(stack, "node-1").text == "node-1 is stopped"


def test_redis_ping_that_is_answered_is_well() -> None:
    answer = {"pong": True, "phase": "running", "instance": "running"}

    report = operate.ping_redis(redis_control({"op": "ping", "node": "node-1"}, answer), "node-1")

    assert (report.text, report.is_well) == ("node-1: PONG; the node is running, its instance running", True)


def test_redis_ping_that_is_not_answered_says_why_and_is_not_well() -> None:
    answer = {"pong": False, "reason": "timed out", "phase": "stopped", "instance": "stopped"}

    report = operate.ping_redis(redis_control({"op": "ping", "node": "node-1"}, answer), "node-1")

    assert report.text == "node-1: no PONG (timed out); the node is stopped, its instance stopped"
    assert not report.is_well


@pytest.mark.parametrize(
    ("outcome", "text", "is_well"),
    [
        ("started", "cars.json starts: follow it with `burstcache watch`", True),
        ("already_hot", "cars.json is hot already: see `burstcache routes`", True),
        ("lost", "cars.json has just been started by its requests", True),
        ("full", "cars.json stays with S3: as many keys are hot as MaxHotKeys allows", False),
        ("too_large", "cars.json stays with S3: the object is larger than a cache function may hold", False),
        ("something_new", "cars.json: something_new", False),
    ],
)
def test_lambda_start_says_what_the_scheduler_did(outcome: str, text: str, is_well: bool) -> None:
    stack: Any = FakeStack("s-scheduler", ANY, {"outcome": outcome})

    report = operate.start_lambda(stack, "cars.json")

    assert (report.text, report.is_well) == (text, is_well)


def test_lambda_start_sends_an_event_as_the_bus_would(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    stack: Any = FakeStack("s-scheduler", ANY, {"outcome": "started"})
    stack.client("lambda").meta.events.register(
        "provide-client-params.lambda.Invoke", lambda params, **_: sent.update(json.loads(params["Payload"]))
    )

    operate.start_lambda(stack, "cars {1}.json")

    assert sent["detail-type"] == "KeyStartRequested"
    assert sent["detail"] == {"key": "cars {1}.json"}
    assert len(sent["id"]) == 36


@pytest.mark.parametrize(
    ("stopped", "text"),
    [(True, "the cache function of cars.json ends"), (False, "no cache function holds cars.json")],
)
def test_lambda_stop_says_whether_there_was_a_cache_function(stopped: bool, text: str) -> None:
    stack = redis_control({"op": "stop_cache", "key": "cars.json"}, {"stopped": stopped})

    assert operate.stop_lambda(stack, "cars.json").text == text


def test_function_that_fails_is_named_with_its_error() -> None:
    error = {"errorType": "RelayDownError", "errorMessage": "no route", "stackTrace": ["..."]}
    stack = redis_control(ANY, error, FunctionError="Unhandled")

    with pytest.raises(OperationFailedError, match=r"^s-redis-control: RelayDownError: no route$"):
        operate.stop_lambda(stack, "cars.json")


def test_function_that_timed_out_has_no_error_type() -> None:
    stack = redis_control(ANY, {"errorMessage": "Task timed out after 3.00 seconds"}, FunctionError="Unhandled")

    with pytest.raises(OperationFailedError, match=r"s-redis-control: error: Task timed out after 3.00 seconds"):
        operate.stop_redis(stack, "node-1")


def test_node_shows_its_keys_and_who_holds_it() -> None:
    running = NodeRow("node-1", phase="running", generation=8, ready_at_us=NOW_US, deadline_at_us=NOW_US + 2)
    leases = [
        Lease("node-1", "h2", "b"),
        Lease("node-1", "h1", "a"),
        Lease("node-1", "by-hand", held_until_us=NOW_US + 1),
    ]

    view = node_view(running, leases, NOW_US)

    assert view.keys == ("a", "b")
    assert nodes_text([view]).splitlines() == [
        "NODE    PHASE    GENERATION  READY SINCE           KEYS  HELD UNTIL",
        "node-1  running  8           2026-08-01T00:00:00Z  2     2026-08-01T00:00:00Z",
    ]


def test_node_that_nobody_looks_after_any_more_is_stopped_and_an_old_hold_is_none() -> None:
    expired = NodeRow("node-1", phase="running", generation=8, ready_at_us=5, deadline_at_us=NOW_US)

    view = node_view(expired, [Lease("node-1", "by-hand", held_until_us=NOW_US)], NOW_US)

    assert view.cells() == ("node-1", "stopped", "8", "-", "0", "-")
