"""Operations reach the right function with the right event, and its answer becomes one line and an exit code."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, get_args

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from burstcache.control.scheduler import Outcome
from burstcache.core.errors import FunctionFailedError
from burstcache_cli import operate

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
        self.answer_head(200)

    def output(self, name: str) -> str:
        return {
            "BucketName": "origin",
            "ReaderSettings": json.dumps({"ORIGIN_FUNCTION_NAME": "s-origin"}),
            "RedisControlFunctionName": "s-redis-control",
            "SchedulerFunctionName": "s-scheduler",
        }[name]

    def client(self, service: str) -> Any:
        return {"lambda": self._client, "s3": self.s3}[service]

    @property
    def clients(self) -> Any:
        """Clients of any profile."""
        return SimpleNamespace(like=lambda profile: SimpleNamespace(make=self.client))

    def answer_head(self, status: int) -> None:
        """Let S3 answer the next HEAD with a status."""
        self.s3 = boto3.client("s3", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
        stubber = Stubber(self.s3)
        if status == 200:
            stubber.add_response("head_object", {"ContentLength": 4}, {"Bucket": "origin", "Key": ANY})
        else:
            stubber.add_client_error("head_object", str(status), http_status_code=status)
        stubber.activate()


def redis_control(payload: Any, answer: Any, **response: Any) -> Any:
    return FakeStack("s-redis-control", payload, answer, **response)


def test_redis_start_holds_the_node() -> None:
    stack = redis_control({"op": "hold", "node": "node-1", "for_s": 60}, {"phase": "booting", "held_until_us": NOW_US})

    outcome = operate.start_redis(stack, "node-1", 60)

    assert outcome.text == "node-1 is booting, held until 2026-08-01T00:00:00Z"
    assert outcome.is_success


def test_redis_stop_releases_the_node() -> None:
    stack = redis_control({"op": "release", "node": "node-1"}, {"phase": "stopped"})

    assert operate.stop_redis(stack, "node-1").text == "node-1 is stopped"


_ANSWER = {"machine": "instance", "task_kind": "", "host": ""}


def test_redis_ping_names_a_task_what_it_runs_on_and_its_address() -> None:
    running = {"machine": "task", "task_kind": "fargate", "host": "10.0.0.1", "instance": "running"}
    answers = [
        running | {"pong": True, "phase": "running"},
        running | {"pong": False, "phase": "stopped", "instance": "stopped", "task_kind": "", "host": ""},
    ]

    texts = [
        operate.ping_redis(redis_control({"op": "ping", "node": "node-1"}, answer), "node-1").text for answer in answers
    ]

    assert texts[0] == "node-1: PONG; the node is running, its task running on fargate at 10.0.0.1"
    assert texts[1].endswith("; the node is stopped, its task stopped")


def test_redis_ping_that_is_answered_is_success() -> None:
    answer = _ANSWER | {"pong": True, "phase": "running", "instance": "running"}

    outcome = operate.ping_redis(redis_control({"op": "ping", "node": "node-1"}, answer), "node-1")

    assert (outcome.text, outcome.is_success) == ("node-1: PONG; the node is running, its instance running", True)


def test_redis_ping_that_is_not_answered_says_why_and_is_not_well() -> None:
    answer = _ANSWER | {"pong": False, "reason": "timed out", "phase": "stopped", "instance": "stopped"}

    outcome = operate.ping_redis(redis_control({"op": "ping", "node": "node-1"}, answer), "node-1")

    assert outcome.text == "node-1: no PONG (timed out); the node is stopped, its instance stopped"
    assert not outcome.is_success


@pytest.mark.parametrize(
    ("outcome", "text", "is_success"),
    [
        ("started", "cars.json starts: follow it with `burstcache watch`", True),
        ("booted", "the node of cars.json boots: see `burstcache redis status`", True),
        ("already_hot", "cars.json is hot already: see `burstcache routes`", True),
        ("lost", "cars.json has just been started by its requests", True),
        ("full", "cars.json stays with S3: MaxHotKeys keys are hot already", False),
        ("paused", "cars.json stays with S3: the stack is paused; `burstcache resume` ends that", False),
        (
            "cools_down",
            "cars.json stays with S3: its node may not boot yet: `burstcache explain` says until when",
            False,
        ),
        ("no_tier", "cars.json stays with S3: the stack has neither a node nor a relay", False),
        ("too_large", "cars.json stays with S3: the object is larger than a cache function may hold", False),
        ("something_new", "cars.json: something_new", False),
    ],
)
def test_lambda_start_says_what_the_scheduler_did(outcome: str, text: str, is_success: bool) -> None:
    stack: Any = FakeStack("s-scheduler", ANY, {"outcome": outcome})

    started = operate.start_lambda(stack, "cars.json")

    assert (started.text, started.is_success) == (text, is_success)


def test_lambda_start_has_a_line_for_all_that_the_scheduler_may_answer() -> None:
    by_requests = {"remembered", "restarted", "taken_over", "replaced"}

    assert set(operate._START_OUTCOMES) == set(get_args(Outcome)) - by_requests


def test_lambda_start_of_an_object_that_does_not_exist_starts_nothing_and_fails() -> None:
    stack: Any = FakeStack("nobody", ANY, {})
    stack.answer_head(404)

    refused = operate.start_lambda(stack, "nosuch.json")

    assert refused.text == "nosuch.json does not exist: bucket origin has no object of this name"
    assert not refused.is_success


def test_lambda_start_leaves_it_to_the_scheduler_if_the_origin_may_not_be_asked() -> None:
    stack: Any = FakeStack("s-scheduler", ANY, {"outcome": "started"})
    stack.answer_head(403)

    assert operate.start_lambda(stack, "cars.json").is_success


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

    with pytest.raises(FunctionFailedError, match=r"^s-redis-control: RelayDownError: no route$"):
        operate.stop_lambda(stack, "cars.json")


def test_function_that_timed_out_has_no_error_type() -> None:
    stack = redis_control(ANY, {"errorMessage": "Task timed out after 3.00 seconds"}, FunctionError="Unhandled")

    with pytest.raises(FunctionFailedError, match=r"s-redis-control: error: Task timed out after 3.00 seconds"):
        operate.stop_redis(stack, "node-1")


def test_purge_lets_the_copies_of_a_key_go() -> None:
    answer = {"refreshed": "redis", "copies": 1}
    stack: Any = FakeStack("s-origin", {"op": "follow_write", "key": "cars.json"}, answer)

    assert operate.purge_key(stack, "cars.json") == operate.Outcome(
        "1 key invalidated; nodes and cache functions had 1 copy", {"keys": 1, "copies": 1, "failed": []}
    )


@pytest.mark.parametrize(("status", "told"), [(404, "; bucket origin has no object of this name"), (403, ""), (0, "")])
def test_purge_of_what_nobody_has_a_copy_of_says_so(status: int, told: str) -> None:
    stack: Any = FakeStack("s-origin", ANY, {"refreshed": "", "copies": 0})
    stack.s3 = boto3.client("s3", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
    stubber = Stubber(stack.s3)
    if status:
        stubber.add_client_error("head_object", str(status), http_status_code=status)
    else:
        stubber.add_response("head_object", {"ContentLength": 4})
    stubber.activate()

    outcome = operate.purge_key(stack, "nokey")

    assert outcome.text == (
        f"no node and no cache function had a copy of nokey; readers with a memory will revalidate{told}"
    )
    assert (outcome.is_success, outcome.answer["copies"]) == (True, 0)


def test_purge_says_which_copies_may_still_be_read() -> None:
    error = {"errorType": "RelayDownError", "errorMessage": "no route"}
    stack: Any = FakeStack("s-origin", ANY, error, FunctionError="Unhandled")

    outcome = operate.purge_keys(stack, ["cars.json"])

    assert outcome.text == (
        "0 keys invalidated; nodes and cache functions had 0 copies; 1 key failed;"
        " cars.json: s-origin: RelayDownError: no route"
    )
    assert not outcome.is_success


def test_purge_of_a_prefix_takes_every_object_under_it() -> None:
    stack: Any = FakeStack("s-origin", ANY, {})
    stack.s3 = boto3.client("s3", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")
    stubber = Stubber(stack.s3)
    asked = {"Bucket": "origin", "Prefix": "a/"}
    page = {"Contents": [{"Key": "a/1"}], "IsTruncated": True, "NextContinuationToken": "t"}
    stubber.add_response("list_objects_v2", page, asked)
    stubber.add_response("list_objects_v2", {"Contents": [{"Key": "a/2"}]}, {**asked, "ContinuationToken": "t"})
    stubber.activate()

    assert list(operate._keys_under(stack, "a/")) == ["a/1", "a/2"]


def test_purge_goes_on_after_a_function_that_answers_too_late() -> None:
    answered: list[str] = []

    def invoke(*, FunctionName: str, Payload: bytes) -> dict[str, Any]:
        if (key := json.loads(Payload)["key"]) == "1":
            raise ReadTimeoutError(endpoint_url="https://lambda")
        answered.append(key)
        return {"Payload": io.BytesIO(b"{}")}

    client, settings = SimpleNamespace(invoke=invoke), json.dumps({"ORIGIN_FUNCTION_NAME": "s-origin"})
    clients = SimpleNamespace(like=lambda profile: SimpleNamespace(make=lambda service: client))
    stack: Any = SimpleNamespace(output=lambda name: settings, clients=clients)

    outcome = operate.purge_keys(stack, map(str, range(20)))

    assert outcome.text.startswith("19 keys invalidated; nodes and cache functions had 0 copies; 1 key failed; 1: Read")
    assert len(answered) == 19


def test_purge_of_a_large_bucket_lists_on_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operate, "_PURGE_BATCH", 4)
    taken: list[int] = []
    ahead: list[int] = []

    def keys() -> Iterator[str]:
        for number in range(10):
            taken.append(number)
            yield str(number)

    def invoke(*, FunctionName: str, Payload: bytes) -> dict[str, Any]:
        ahead.append(len(taken))
        return {"Payload": io.BytesIO(b"{}")}

    client, settings = SimpleNamespace(invoke=invoke), json.dumps({"ORIGIN_FUNCTION_NAME": "s-origin"})
    clients = SimpleNamespace(like=lambda profile: SimpleNamespace(make=lambda service: client))
    stack: Any = SimpleNamespace(output=lambda name: settings, clients=clients)

    assert operate.purge_keys(stack, keys()).answer == {"keys": 10, "copies": 0, "failed": []}
    assert sorted(ahead) == [4] * 4 + [8] * 4 + [10] * 2
