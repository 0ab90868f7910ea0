"""Task tokens, one for each attempt of a task that an API call completes."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from typing import Any

from burstcache_local.stepfunctions.errors import ApiError, HeartbeatLostError, StateError


@dataclass(slots=True)
class _Waiting:
    outcome: asyncio.Future[Any]
    heartbeat_s: float | None
    timeout: asyncio.Timeout | None = None  # of the whole task, once the call has started
    limit: asyncio.Timeout | None = None  # of the next heartbeat, while the task waits for a heartbeat

    def is_over(self) -> bool:
        """Return whether the task has an outcome or has timed out, even if its coroutine has not resumed yet."""
        return self.outcome.done() or any(each is not None and each.expired() for each in (self.timeout, self.limit))

    def stop_clocks(self) -> None:
        """Disable the timeouts, so that no timeout fires before the task's coroutine resumes with the outcome."""
        for each in (self.timeout, self.limit):
            if each is not None:
                each.reschedule(None)


class Tokens:
    """All task tokens of one `StepFunctions`. Not thread-safe: call all methods in the service's event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._count = 0

    def open(self, execution_arn: str, heartbeat_s: float | None) -> str:
        """Return a new token for one task attempt."""
        self._count += 1
        token = base64.b64encode(f"{execution_arn}#{self._count}".encode()).decode()
        self._waiting[token] = _Waiting(asyncio.get_running_loop().create_future(), heartbeat_s)
        return token

    def ends_with(self, token: str, timeout: asyncio.Timeout) -> None:
        """Set the task's timeout. After the timeout, calls with the token are rejected."""
        self._waiting[token].timeout = timeout

    def close(self, token: str) -> None:
        """Close the token. Later calls with the token are rejected."""
        self._waiting.pop(token, None)

    async def completed(self, token: str) -> Any:
        """Wait until the task of an open token completes, and return the task's output.

        Raises:
            StateError: The task has failed.
            HeartbeatLostError: No heartbeat arrived in time. The heartbeat timeout starts with this call.
        """
        waiting = self._waiting[token]
        try:
            async with asyncio.timeout(waiting.heartbeat_s) as waiting.limit:
                return await asyncio.shield(waiting.outcome)
        except TimeoutError:
            raise HeartbeatLostError from None

    def complete(self, token: str, outcome: Any) -> None:
        """Complete the token's task with an output or a StateError.

        Raises:
            ApiError: The token is closed or was never issued.
        """
        waiting = self._open(token)
        waiting.stop_clocks()
        future = waiting.outcome
        if isinstance(outcome, StateError):
            future.set_exception(outcome)
            future.exception()  # mark as retrieved, because a stopped execution never retrieves the exception
        else:
            future.set_result(outcome)

    def beat(self, token: str) -> None:
        """Restart a waiting task's heartbeat timeout.

        Raises:
            ApiError: The token is closed or was never issued.
        """
        waiting = self._open(token)
        if waiting.limit is not None and waiting.heartbeat_s is not None:
            waiting.limit.reschedule(asyncio.get_running_loop().time() + waiting.heartbeat_s)

    def _open(self, token: str) -> _Waiting:
        """Return the token's waiting task, or raise one of AWS's three errors as an ApiError."""
        if (waiting := self._waiting.get(token)) is not None:
            if waiting.is_over():
                raise _timed_out()
            return waiting
        try:
            arn, _, number = base64.b64decode(token, validate=True).decode().rpartition("#")
        except (binascii.Error, UnicodeDecodeError):
            arn, number = "", ""
        if not (arn.startswith("arn:") and number.isdigit()):
            raise ApiError("InvalidToken", "Invalid Token: 'Invalid token'")
        if int(number) > self._count:
            raise ApiError("TaskDoesNotExist", "Task Does Not Exist: 'Provided task does not exist'")
        raise _timed_out()


def _timed_out() -> ApiError:
    return ApiError("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
