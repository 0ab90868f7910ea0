"""When each request is due, and the open loop that sends it then, however slow the answers are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

_LEAD_S = 0.05  # before the first request is due: by then the loop is under way
_SENT_IN_A_ROW = 8  # when late: then answers get their turn


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for a request."""

    status: int  # 0: nothing came
    tier: str = ""
    body_bytes: int = 0
    error: str = ""  # why nothing came, or what is wrong with what came
    waited_s: float = field(default=0.0, compare=False)  # before it was sent, for something of this machine


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request as it went.

    `latency_s` counts from the instant at which the request was due, so a stack that stalls cannot hide it by keeping
    later requests from being sent (coordinated omission).
    """

    number: int  # in the trace, from 0
    late_s: float  # sent after it was due
    latency_s: float
    answer: Answer

    @property
    def service_s(self) -> float:
        """The time from when it was sent to its answer."""
        return self.latency_s - self.late_s


Send = Callable[[int], Awaitable[Answer]]


async def replay(
    due_s: Iterable[float], send: Send, record: Callable[[Outcome], None], now_s: Callable[[], float] = time.monotonic
) -> int:
    """Send each request when it is due, and wait for the last answer.

    If it is cancelled, it sends no more, and returns when the answers to what is under way have come. Cancelled again,
    it does not wait for them.

    Args:
        due_s: When each request is due, from the start, ascending [s]; asked for the next one when it has sent one.
        send: Sends the request of that number and returns its answer; it does not raise.
        record: Takes each outcome as it comes.
        now_s: The clock [s]; the event loop's own has whole milliseconds only, if it is uvloop.

    Returns:
        When the replay began, since 1970 [us].

    Raises:
        Exception: What `record` raised; nothing more is sent from then on.
    """
    loop = asyncio.get_running_loop()
    began_s = now_s() + _LEAD_S
    began_us = round((time.time() + _LEAD_S) * 1e6)
    under_way: set[asyncio.Task[None]] = set()
    errors: list[BaseException] = []

    async def one(number: int, due: float) -> None:
        sent = now_s()
        answer = await send(number)
        record(Outcome(number, sent - due + answer.waited_s, now_s() - due, answer))

    def ended(task: asyncio.Task[None]) -> None:
        under_way.discard(task)
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
            under_way.add(task)
            task.add_done_callback(ended)
    except asyncio.CancelledError:
        pass  # ended early, in order
    if under_way:
        try:
            await asyncio.wait(under_way)
        except asyncio.CancelledError:
            left = [*under_way]
            for each in left:
                each.cancel()
            await asyncio.wait(left)
    if errors:
        raise errors[0]
    return began_us
