"""Schedule of a replay, an open loop that sends each request when it is due, even if responses are slow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

_LEAD_S = 0.05  # startup time before the first request is due
_SENT_IN_A_ROW = 8  # late requests sent before responses are processed


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request."""

    status: int  # 0 if there is no response
    tier: str = ""
    body_bytes: int = 0
    error: str = ""  # cause of a missing response, or a problem with the body
    waited_s: float = field(default=0.0, compare=False)  # time spent waiting for a local thread before sending


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request.

    `latency_s` counts from the due time, so a stalling stack cannot hide latency by delaying later requests
    (coordinated omission).
    """

    number: int  # index in the trace
    late_s: float  # from due time to sending
    latency_s: float
    answer: Answer

    @property
    def service_s(self) -> float:
        """Time from sending to the response [s]."""
        return self.latency_s - self.late_s


Send = Callable[[int], Awaitable[Answer]]


async def replay(
    due_s: Iterable[float], send: Send, record: Callable[[Outcome], None], now_s: Callable[[], float] = time.monotonic
) -> int:
    """Send each request when it is due, and wait for the last response.

    After a first cancellation, no further requests are sent, and requests in flight are awaited. A second cancellation
    ends the wait.

    Args:
        due_s: Due times relative to the start, ascending [s]. The iterable is consumed lazily, one request at a time.
        send: Sends the request with the given index and returns the response. Never raises.
        record: Receives each outcome as it arrives.
        now_s: Clock [s]. uvloop's own clock has only millisecond resolution.

    Returns:
        Start time of the replay, since 1970 [us].

    Raises:
        Exception: An exception raised by `record`, which ends the replay.
    """
    loop = asyncio.get_running_loop()
    began_s = now_s() + _LEAD_S
    began_us = round((time.time() + _LEAD_S) * 1e6)
    in_flight: set[asyncio.Task[None]] = set()
    errors: list[BaseException] = []

    async def one(number: int, due: float) -> None:
        sent = now_s()
        answer = await send(number)
        record(Outcome(number, sent - due + answer.waited_s, now_s() - due, answer))

    def ended(task: asyncio.Task[None]) -> None:
        in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()):
            errors.append(error)

    in_a_row = 0
    try:
        for number, after_s in enumerate(due_s):
            if errors:
                break
            due = began_s + after_s
            wait_s = due - now_s()
            if wait_s > 0 or in_a_row == _SENT_IN_A_ROW:
                await asyncio.sleep(max(wait_s, 0))
                in_a_row = 0
            in_a_row += 1
            task = loop.create_task(one(number, due))
            in_flight.add(task)
            task.add_done_callback(ended)
    except asyncio.CancelledError:
        pass  # graceful stop: wait for requests in flight
    if in_flight:
        try:
            await asyncio.wait(in_flight)
        except asyncio.CancelledError:
            remaining = [*in_flight]
            for each in remaining:
                each.cancel()
            await asyncio.wait(remaining)
    if errors:
        raise errors[0]
    return began_us
