"""Service integrations of tasks: their results, and their error names in the machine."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from burstcache_local.errors import FunctionNotFoundError, ThrottledError
from burstcache_local.functions import Outcome
from burstcache_local.lambdas.service import Lambdas
from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.integrations import invoke_of, update_item_of


class _Lambdas:
    """A Lambda service that answers or fails as a test says."""

    def __init__(self, answer: Outcome | Exception) -> None:
        self._answer = answer
        self.accepted: list[bytes] = []

    async def invoke(self, name: str, payload: bytes, *, request_id: str, trace: str) -> Outcome:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def invoke_event(self, name: str, payload: bytes, *, request_id: str, trace: str) -> None:
        self.accepted.append(payload)


def _invoke(lambdas: _Lambdas, **arguments: Any) -> Any:
    async def work() -> Any:
        return await invoke_of(cast(Lambdas, lambdas))({"FunctionName": "f", "Payload": {"a": 1}, **arguments})

    return asyncio.run(work())


def test_function_is_invoked_and_its_answer_is_the_payload() -> None:
    assert _invoke(_Lambdas(Outcome(b'{"b": 2}')))["Payload"] == {"b": 2}


def test_event_is_accepted_without_an_answer() -> None:
    lambdas = _Lambdas(Outcome(b"{}"))

    assert _invoke(lambdas, InvocationType="Event")["StatusCode"] == 202

    assert lambdas.accepted == [b'{"a": 1}']


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (Outcome(b'{"errorType": "MineError", "errorMessage": "because"}', "Unhandled"), "MineError"),
        (Outcome(b"{}", "Unhandled"), "Lambda.Unknown"),
        (FunctionNotFoundError("none"), "Lambda.ResourceNotFoundException"),
        (ThrottledError("full"), "Lambda.TooManyRequestsException"),
    ],
)
def test_failed_invocation_fails_the_task_by_name(answer: Outcome | Exception, name: str) -> None:
    with pytest.raises(StateError) as failed:
        _invoke(_Lambdas(answer))

    assert failed.value.name == name


class _DynamoDb:
    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self._answer = answer

    def update_item(self, **_: Any) -> dict[str, Any]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _update(answer: dict[str, Any] | Exception) -> Any:
    async def work() -> Any:
        return await update_item_of(lambda: _DynamoDb(answer))({"TableName": "t"})

    return asyncio.run(work())


def test_update_yields_the_services_answer_without_what_boto3_adds() -> None:
    assert _update({"Attributes": {}, "ResponseMetadata": {"HTTPStatusCode": 200}}) == {"Attributes": {}}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (
            ClientError(
                {
                    "Error": {"Code": "ConditionalCheckFailedException", "Message": "failed"},
                    "ResponseMetadata": {"HTTPStatusCode": 400},  # type: ignore[typeddict-item]
                },
                "UpdateItem",
            ),
            "DynamoDb.ConditionalCheckFailedException",
        ),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:9"), "DynamoDb.SdkClientException"),
    ],
)
def test_failed_update_fails_the_task_by_the_sdks_name(error: Exception, name: str) -> None:
    with pytest.raises(StateError) as failed:
        _update(error)

    assert failed.value.name == name
