"""Functions that call functions: one waits for the answer, another does not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber
from urllib3.exceptions import ProtocolError

from burstcache.adapters.functions import invoke_by_name, start_by_name
from burstcache.adapters.state_function import StateFunction
from burstcache.core.errors import FunctionFailedError, ServiceTransientError
from burstcache.core.messages.pool_control import KnownHub, ReportHub
from burstcache.core.pool.retention import NO_TOTALS

PAYLOAD = {"key": "k"}
_ASKED = {"FunctionName": "f", "Payload": json.dumps(PAYLOAD).encode()}


@pytest.fixture
def lambda_() -> Any:
    return boto3.client("lambda", "eu-west-1", aws_access_key_id="test", aws_secret_access_key="test")


def answering(client: Any, asked: dict[str, Any], answer: object, **more: Any) -> Any:
    """Return a client of which one invocation is expected."""
    body = json.dumps(answer).encode()
    stubber = Stubber(client)
    stubber.add_response("invoke", {"Payload": StreamingBody(io.BytesIO(body), len(body)), **more}, asked)
    stubber.activate()
    return client


def test_what_a_function_returns_is_returned(lambda_: Any) -> None:
    assert invoke_by_name(answering(lambda_, _ASKED, {"done": True}), "f")(PAYLOAD) == {"done": True}


def test_function_that_fails_is_an_error_with_its_own_words(lambda_: Any) -> None:
    failed = {"errorType": "RedisDownError", "errorMessage": "no answer"}

    with pytest.raises(FunctionFailedError, match=r"f failed at \{'key': 'k'\}: RedisDownError: no answer"):
        invoke_by_name(answering(lambda_, _ASKED, failed, FunctionError="Unhandled"), "f")(PAYLOAD)


def test_function_that_fails_names_the_operation_and_the_hub_but_not_its_token(lambda_: Any) -> None:
    hub = KnownHub(id="hub-1", host="10.0.0.5", port=4_230, token="ab" * 32, certificate="PEM")
    report = ReportHub(op="hub", hub=hub, totals=NO_TOTALS, used={}, takes_readers=False)
    asked = {"FunctionName": "f", "Payload": json.dumps(report).encode()}
    client = answering(lambda_, asked, {"errorType": "ServiceError"}, FunctionError="Unhandled")

    with pytest.raises(FunctionFailedError, match=r"f failed at \{'op': 'hub', 'id': 'hub-1'\}: ServiceError"):
        invoke_by_name(client, "f")(report)


class BrokenOff(io.RawIOBase):
    """An answer whose connection breaks after its head."""

    def read(self, size: int = -1) -> bytes:
        raise ProtocolError("Connection broken", ConnectionResetError(104, "Connection reset by peer"))


def invoked(client: Any) -> object:
    return invoke_by_name(client, "f")(PAYLOAD)


def asked_for_a_database(client: Any) -> object:
    return StateFunction(client, "f", database="orders", holder="h").release()


@pytest.mark.parametrize("call", [invoked, asked_for_a_database])
def test_an_answer_that_breaks_off_is_a_passing_error(lambda_: Any, call: Callable[[Any], object]) -> None:
    stubber = Stubber(lambda_)
    broken: Any = BrokenOff()
    stubber.add_response("invoke", {"Payload": StreamingBody(broken, 10)})
    stubber.activate()

    with pytest.raises(ServiceTransientError, match="Connection reset by peer"):
        call(lambda_)


def test_function_that_is_only_started_gets_its_payload_as_an_event_and_its_client_at_the_first_call(
    lambda_: Any,
) -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(answering(lambda_, {**_ASKED, "InvocationType": "Event"}, ""))
        return made[-1]

    start = start_by_name(make, "f")
    assert made == []
    start(PAYLOAD)

    assert len(made) == 1


def test_function_that_lambda_refuses_to_start_is_a_passing_error(lambda_: Any) -> None:
    stubber = Stubber(lambda_)
    stubber.add_client_error("invoke", "TooManyRequestsException", http_status_code=429)
    stubber.activate()

    with pytest.raises(ServiceTransientError, match="TooManyRequestsException"):
        start_by_name(lambda: lambda_, "f")(PAYLOAD)
