"""What a computation under single flight waits for, apart from how it waits: in a thread, or in a task.

A flow is a generator that yields steps and is sent their answers; an error of a step is raised in it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Ask(NamedTuple):
    """Call what may block for a store's time-out."""

    call: Callable[[], Any]


class Pause(NamedTuple):
    """Wait for this long [s]."""

    duration_s: float


class Follow(NamedTuple):
    """Wait for the end of another computation of this process, for this long [s]; then a TimeoutError is raised."""

    flight: Future[Any]
    timeout_s: float


class Compute(NamedTuple):
    """Call the function."""


Step = Ask | Pause | Follow | Compute
Flow = Generator[Step, Any, T]


def run(flow: Flow[T], compute: Callable[[], Any] | None = None) -> T:
    """Take the steps of a flow in this thread, and return its result; `compute` is for a flow that has such a step."""

    def take(step: Step) -> Any:
        match step:
            case Ask(call):
                return call()
            case Pause(duration_s):
                return time.sleep(duration_s)
            case Follow(flight, timeout_s):
                return flight.result(timeout_s)
            case Compute():
                assert compute is not None
                return compute()

    try:
        step = next(flow)
        while True:
            try:
                answer = take(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def run_async(flow: Flow[T], compute: Callable[[], Awaitable[Any]], threads: Executor) -> T:
    """Take the steps of a flow in this task, those that block in a thread, and return what it returns."""
    import asyncio

    async def take(step: Step) -> Any:
        match step:
            case Ask(call):
                return await ask(call, threads)
            case Pause(duration_s):
                return await asyncio.sleep(duration_s)
            case Follow(flight, timeout_s):
                end = asyncio.shield(asyncio.wrap_future(flight))  # a cancelled follower cancels no leader
                return await asyncio.wait_for(end, timeout_s)
            case Compute():
                return await compute()

    try:
        step = next(flow)
        while True:
            try:
                answer = await take(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def ask(call: Callable[[], T], threads: Executor) -> T:
    """Call what may block in a thread, or in the event loop's own if no other is to be had."""
    import asyncio

    calls, answer = [call], Future[T]()

    def work() -> None:
        try:
            once = calls.pop()
        except IndexError:  # done already: a pool that finds no thread keeps it in its queue all the same
            return
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(once())
            except BaseException as error:
                answer.set_exception(error)

    try:
        threads.submit(work)
    except RuntimeError:
        work()
    return await asyncio.wrap_future(answer)
