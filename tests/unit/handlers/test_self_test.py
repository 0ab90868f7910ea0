"""CloudFormation hears whether the stack works, and nobody but its operators may ask."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.backends import get_backend

from burstcache.control.stack_test import StackTest
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.self_test import is_self_test
from burstcache.handlers import self_test as handler
from burstcache.handlers._self_test import answers_self_test
from burstcache_local.functions import ACCOUNT
from support.clock import ManualClock
from support.project import ROOT

_TEMPLATE = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
_SAMPLES = [path for path in sorted((ROOT / "events").glob("*/*.json")) if path.stem != "self_test"]


class Desk:
    """A stack whose functions have a problem or none, and what CloudFormation has heard."""

    def __init__(self, problem: str) -> None:
        self.answers: list[dict[str, Any]] = []
        self.clock = ManualClock()
        self.asked: list[str] = []
        self.problem = problem
        made = boto3.client("cloudformation").create_stack(StackName="mine", TemplateBody=json.dumps(_TEMPLATE))
        self.stack_id = made["StackId"]
        self.test = StackTest(("s-cache", "s-proxy"), self._invoke, self.clock, lambda: "run")

    def _invoke(self, function: str, event: Any) -> Any:
        self.asked.append(function)
        if self.problem == "crash":
            raise FunctionFailedError(f"{function} failed: InvalidSettingError: TABLE_NAME is empty")
        tried = {"part": "bus", "endpoint": "events.aws:443", "duration_ms": 1, "problem": self.problem}
        return {"tried": [tried]}

    def take(self, request: urllib.request.Request, timeout: float) -> Any:
        assert isinstance(request.data, bytes)
        assert len(request.data) <= 4096
        self.answers.append(json.loads(request.data))
        return nullcontext()

    def ask(self, kind: str, **changes: str) -> dict[str, Any]:
        """Send a sample of CloudFormation's requests; return the answer."""
        event = json.loads((ROOT / f"events/self_test/{kind}.json").read_text())
        remaining_ms = lambda: round(330_000 - self.clock.now_s * 1000)  # noqa: E731
        context = SimpleNamespace(get_remaining_time_in_millis=remaining_ms)
        handler.handler(event | {"StackId": self.stack_id} | changes, context)
        return self.answers[-1]


@pytest.fixture
def desk_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Desk]]:
    environment = {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "DEFAULT_REGION": "us-east-1"}
    for name, value in environment.items():
        monkeypatch.setenv(f"AWS_{name}", value)

    def make(problem: str) -> Desk:
        desk = Desk(problem)
        monkeypatch.setattr(handler, "stack_test", lambda: desk.test)
        monkeypatch.setattr(urllib.request, "urlopen", desk.take)
        return desk

    with mock_aws():
        yield make


@pytest.mark.slow
def test_a_stack_that_works_is_a_success(desk_with: Callable[[str], Desk]) -> None:
    desk = desk_with("")

    answer = desk.ask("create")

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "SelfTest")
    assert sorted(desk.asked) == ["s-cache", "s-proxy"]


def test_a_deployment_fails_with_function_endpoint_error_and_remedy_after_some_minutes(
    desk_with: Callable[[str], Desk],
) -> None:
    desk = desk_with("no route; let out this port")

    answer = desk.ask("create")

    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == "s-cache, s-proxy: bus at events.aws:443: no route; let out this port"
    assert 200 <= desk.clock.now_s <= 250


def test_functions_that_do_not_start_are_named(desk_with: Callable[[str], Desk]) -> None:
    assert "InvalidSettingError: TABLE_NAME is empty" in desk_with("crash").ask("create")["Reason"]


def test_a_long_reason_fits_into_the_answer(desk_with: Callable[[str], Desk]) -> None:
    assert desk_with("x" * 10_000).ask("create")["Status"] == "FAILED"  # `take` looks at the size


def test_a_deletion_tests_nothing(desk_with: Callable[[str], Desk]) -> None:
    desk = desk_with("everything is gone")

    assert desk.ask("delete")["Status"] == "SUCCESS"
    assert desk.asked == []


def test_an_update_is_tested_and_its_rollback_is_not(desk_with: Callable[[str], Desk]) -> None:
    desk = desk_with("no route")

    update = desk.ask("create", RequestType="Update", PhysicalResourceId="SelfTest")
    (stack,) = get_backend("cloudformation")[ACCOUNT]["us-east-1"].stacks.values()
    stack.status = "UPDATE_ROLLBACK_IN_PROGRESS"
    rollback = desk.ask("create", RequestType="Update", PhysicalResourceId="SelfTest")

    assert (update["Status"], rollback["Status"]) == ("FAILED", "SUCCESS")


def test_a_person_gets_all_results_of_one_test(desk_with: Callable[[str], Desk]) -> None:
    desk = desk_with("no route")

    tested = handler.handler({"op": "self_test", "run": "1"}, None)

    assert tested is not None
    assert [(each["function"], each["problem"]) for each in tested["tried"]] == [
        ("s-cache", "no route"),
        ("s-proxy", "no route"),
    ]
    assert desk.clock.now_s == 0


def test_what_fails_is_in_the_log_for_a_schedule_that_reads_no_answer(
    desk_with: Callable[[str], Desk], caplog: pytest.LogCaptureFixture
) -> None:
    desk_with("no route")

    handler.handler({"op": "self_test", "run": "daily"}, None)

    [record] = [record for record in caplog.records if record.message == "self-test"]
    assert record.levelname == "WARNING"
    assert record.__dict__["problems"] == ["s-cache, s-proxy: bus at events.aws:443: no route"]


def test_what_works_leaves_no_warning(desk_with: Callable[[str], Desk], caplog: pytest.LogCaptureFixture) -> None:
    desk_with("")

    handler.handler({"op": "self_test", "run": "daily"}, None)

    assert caplog.records == []


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_other_event_asks_for_a_self_test(sample: Any) -> None:
    assert not is_self_test(json.loads(sample.read_text()))


def test_a_request_cannot_ask_for_a_self_test_whatever_it_says() -> None:
    handled = answers_self_test("proxy")(lambda event, context: event)
    request = json.loads((ROOT / "events/proxy/http_api_get_200.json").read_text())
    asking = {"op": "self_test", "run": "1"}

    for field in ("body", "queryStringParameters", "headers", "pathParameters"):
        assert handled({**request, field: asking}, None) == {**request, field: asking}
    assert handled({**request, **asking}, None) == {**request, **asking}  # a front door adds fields of its own
