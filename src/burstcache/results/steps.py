"""Steps of a flow: a cached call's waits, independent of whether it runs in a thread or in a task.

A flow is a generator that yields steps and receives their results. A step's error is raised in the flow.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class BlockingCall(NamedTuple):
    """A call that may block until a store's timeout."""

    call: Callable[[], Any]


class Sleep(NamedTuple):
    """A pause of this length [s]."""

    duration_s: float


class Follow(NamedTuple):
    """A wait for another computation in this process. Raises TimeoutError after `timeout_s`."""

    flight: Future[Any]
    timeout_s: float


class Compute(NamedTuple):
    """A call of the cached function."""


Step = BlockingCall | Sleep | Follow | Compute
Flow = Generator[Step, Any, T]


def run(flow: Flow[T], compute: Callable[[], Any] | None = None) -> T:
    """Run a flow in this thread, and return its result. Flows with a Compute step need `compute`."""

    def take(step: Step) -> Any:
        match step:
            case BlockingCall(call):
                return call()
            case Sleep(duration_s):
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
                result = take(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        flow.close()  # if it was interrupted between two steps


async def run_async(flow: Flow[T], compute: Callable[[], Awaitable[Any]], threads: Executor) -> T:
    """Run a flow in this task, with its blocking calls in threads, and return its result."""
    import asyncio

    async def take(step: Step) -> Any:
        match step:
            case BlockingCall(call):
                return await call_in_thread(call, threads)
            case Sleep(duration_s):
                return await asyncio.sleep(duration_s)
            case Follow(flight, timeout_s):
                end = asyncio.shield(asyncio.wrap_future(flight))  # cancelling a follower must not cancel the leader
                return await asyncio.wait_for(end, timeout_s)
            case Compute():
                return await compute()

    try:
        step = next(flow)
        while True:
            try:
                result = await take(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        flow.close()


async def call_in_thread(call: Callable[[], T], threads: Executor) -> T:
    """Run a blocking call in a thread, or in the event loop's own thread if no other can be started."""
    import asyncio

    calls, result = [call], Future[T]()

    def work() -> None:
        try:
            once = calls.pop()
        except IndexError:  # called already: a pool that cannot start a thread leaves `work` in its queue
            return
        if result.set_running_or_notify_cancel():
            try:
                result.set_result(once())
            except BaseException as error:
                result.set_exception(error)

    try:
        threads.submit(work)
    except RuntimeError:
        work()
    return await asyncio.wrap_future(result)
