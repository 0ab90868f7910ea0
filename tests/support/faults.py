"""Faults of AWS: the next calls of an operation fail, without the SDK's retries and their pauses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from burstcache.adapters.executions import Executions
from burstcache.core.errors import ServiceError


class Faults:
    """Injector that fails the next calls and counts them."""

    def __init__(self, left: int, code: str, status: int) -> None:
        self.refused = 0
        self._left, self._code, self._status = left, code, status

    def answer(self, **_: object) -> tuple[Any, dict[str, Any]] | None:
        if self._left <= 0:
            return None
        self._left -= 1
        self.refused += 1
        metadata = {"HTTPStatusCode": self._status}
        parsed = {"Error": {"Code": self._code, "Message": "made by a test"}, "ResponseMetadata": metadata}
        return SimpleNamespace(status_code=self._status), parsed


@contextmanager
def failing(
    client: Any, operation: str, *, times: int = 1, code: str = "ThrottlingException", status: int = 400
) -> Iterator[Faults]:
    """Make the next calls of a boto3 client's operation fail.

    Args:
        client: The client.
        operation: AWS's name, such as `StartInstances`.
        times: Number of failures before a call is answered.
        code: The error code.
        status: The answer's HTTP status.
    """
    faults = Faults(times, code, status)
    event = f"before-call.{client.meta.service_model.service_id.hyphenize()}.{operation}"
    client.meta.events.register(event, faults.answer, unique_id="faults")
    try:
        yield faults
    finally:
        client.meta.events.unregister(event, unique_id="faults")


class RefusingExecutions(Executions):
    """Step Functions that throttles every start."""

    def start(self, machine_arn: str, name: str, input_: object) -> bool:
        raise ServiceError("slow down", code="ThrottlingException")


class Died(Exception):
    """Death of a function. None of its code catches this."""


class DyingExecutions(Executions):
    """Step Functions for a function that dies before it starts anything."""

    def start(self, machine_arn: str, name: str, input_: object) -> bool:
        raise Died
