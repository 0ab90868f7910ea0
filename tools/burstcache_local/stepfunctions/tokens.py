"""Task tokens: one per attempt of a task that waits to be completed from outside."""

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
    timeout: asyncio.Timeout | None = None  # of the whole task, once its call is under way
    limit: asyncio.Timeout | None = None  # of the next heartbeat, while the task waits for one

    def is_over(self) -> bool:
        """Whether the task has an outcome or is out of time, even if it has not taken notice yet."""
        return self.outcome.done() or any(each is not None and each.expired() for each in (self.timeout, self.limit))

    def stop_clocks(self) -> None:
        """Let no time-out take the place of an outcome that the task has not taken notice of yet."""
        if self.timeout is not None and self.limit is not None:
            self.timeout.reschedule(None)
            self.limit.reschedule(None)


class Tokens:
    """All tokens of one Step Functions; every method belongs to its event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._count = 0

    def open(self, execution_arn: str, heartbeat_s: float | None) -> str:
        """Return a new token; a token never completes two attempts."""
        self._count += 1
        token = base64.b64encode(f"{execution_arn}#{self._count}".encode()).decode()
        self._waiting[token] = _Waiting(asyncio.get_running_loop().create_future(), heartbeat_s)
        return token

    def ends_with(self, token: str, timeout: asyncio.Timeout) -> None:
        """Refuse an open token as soon as its task is out of time."""
        self._waiting[token].timeout = timeout

    def close(self, token: str) -> None:
        """Refuse the token from now on."""
        self._waiting.pop(token, None)

    async def completed(self, token: str) -> Any:
        """Wait for the completion of an open token and return the task's output.

        Raises:
            StateError: The task has failed.
            HeartbeatLostError: No heartbeat came in time; the first one is due that long after this call.
        """
        waiting = self._waiting[token]
        try:
            async with asyncio.timeout(waiting.heartbeat_s) as waiting.limit:
                return await asyncio.shield(waiting.outcome)
        except TimeoutError:
            raise HeartbeatLostError from None

    def complete(self, token: str, outcome: Any) -> None:
        """End the token's task with an output or a StateError.

        Raises:
            ApiError: The token is closed or was never one.
        """
        waiting = self._open(token)
        waiting.stop_clocks()
        future = waiting.outcome
        if isinstance(outcome, StateError):
            future.set_exception(outcome)
            future.exception()  # seen: an execution that is stopped at this moment never looks
        else:
            future.set_result(outcome)

    def beat(self, token: str) -> None:
        """Put off the time-out of a task that waits.

        Raises:
            ApiError: The token is closed or was never one.
        """
        waiting = self._open(token)
        if waiting.limit is not None and waiting.heartbeat_s is not None:
            waiting.limit.reschedule(asyncio.get_running_loop().time() + waiting.heartbeat_s)

    def _open(self, token: str) -> _Waiting:
        """Return what waits for the token, or raise the one of three errors that AWS answers."""
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
