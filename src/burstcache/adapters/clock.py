"""Time as an argument: adapters and lives ask the clock they were given, so a test can let an hour pass at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Clock(Protocol):
    """The time that the deployed package goes by."""

    def now_us(self) -> int:
        """Return the time since the epoch, in the one unit that rows and policy use [us]."""

    def monotonic_s(self) -> float:
        """Return a time that never runs back, for measuring how long something takes [s]."""

    def sleep(self, duration_s: float) -> None:
        """Return after `duration_s` seconds."""

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        """Return what another thread completes a future with, or raise what it does; TimeoutError after `timeout_s`."""

    def start(self, work: Callable[[], T], /) -> Future[T]:
        """Begin some work in a thread of its own."""

    def wait(self, works: Sequence[Future[Any]], within_s: float | None = None) -> bool:
        """Wait for works that `start` began, by default to their end; return whether all of them have ended."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop that waits by this clock and runs blocking calls in its default executor."""


class SystemClock:
    """The clock of the machine."""

    def now_us(self) -> int:
        """Return the time since the epoch [us]."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Return the time since some fixed instant [s]."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Block this thread for `duration_s` seconds."""
        time.sleep(duration_s)

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        """Block this thread until another one completes a future, or raise TimeoutError after `timeout_s` seconds."""
        return future.result(timeout_s)

    def start(self, work: Callable[[], T], /) -> Future[T]:
        """Begin some work in a thread of its own."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run).start()
        return future

    def wait(self, works: Sequence[Future[Any]], within_s: float | None = None) -> bool:
        """Block this thread until these works have ended, or for `within_s` seconds; return whether they have."""
        return not futures.wait(works, within_s).not_done

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return asyncio's own loop."""
        import asyncio  # most environments of the proxy never meet a key in the Lambda tier

        return asyncio.new_event_loop()


class Instant(NamedTuple):
    """An instant by both times of a clock."""

    monotonic_s: float
    at_us: int


def instant(clock: Clock) -> Instant:
    """Return the present."""
    return Instant(clock.monotonic_s(), clock.now_us())


def seconds_since(clock: Clock, then: Instant) -> float:
    """Return how long ago an instant was at most [s].

    A Lambda environment that slept may not have counted its sleep, and wall time may be set back: the later one is
    believed.
    """
    return max(clock.monotonic_s() - then.monotonic_s, (clock.now_us() - then.at_us) / 1e6)
