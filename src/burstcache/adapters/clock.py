"""The clock as an injected dependency, so that tests can fast-forward adapters and lives by hours."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_FIRST_PAUSE_S, _MOST_DOUBLINGS = 0.01, 7  # half of that on average, about a write


class Clock(Protocol):
    """The source of time, threads and event loops in the deployed package."""

    def now_us(self) -> int:
        """Return the time since the epoch, in the unit used by rows and policies [us]."""

    def monotonic_s(self) -> float:
        """Return a monotonic time, for measuring durations [s]."""

    def sleep(self, duration_s: float) -> None:
        """Return after `duration_s` seconds."""

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        """Return the result of another thread's future or raise its exception. Raise TimeoutError after `timeout_s`."""

    def start(self, work: Callable[[], T], /) -> Future[T]:
        """Run work in a thread of its own."""

    def wait(self, works: Sequence[Future[Any]], within_s: float | None = None) -> bool:
        """Wait for work started by `start`, for at most `within_s`. Return True if all of it has ended."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop that uses this clock and runs blocking calls in its default executor."""


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        """Return the time since the epoch [us]."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Return the time since an arbitrary fixed instant [s]."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Block this thread for `duration_s` seconds."""
        time.sleep(duration_s)

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        """Block this thread until another thread completes the future. Raise TimeoutError after `timeout_s` seconds."""
        return future.result(timeout_s)

    def start(self, work: Callable[[], T], /) -> Future[T]:
        """Run work in a thread of its own."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run).start()
        return future

    def wait(self, works: Sequence[Future[Any]], within_s: float | None = None) -> bool:
        """Block this thread until all work has ended, for at most `within_s` seconds. Return True if all has ended."""
        return not futures.wait(works, within_s).not_done

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return asyncio's default loop."""
        import asyncio  # imported lazily, since most proxy environments never see a key in the Lambda tier

        return asyncio.new_event_loop()


class Instant(NamedTuple):
    """A point in both monotonic and wall-clock time."""

    monotonic_s: float
    at_us: int


def instant(clock: Clock) -> Instant:
    """Return the current instant."""
    return Instant(clock.monotonic_s(), clock.now_us())


def seconds_since(clock: Clock, then: Instant) -> float:
    """Return an upper bound on the time since an instant [s].

    In Lambda the monotonic clock may stop while the environment is frozen, and wall-clock time may be set back. The
    larger of the two durations is returned.
    """
    return max(clock.monotonic_s() - then.monotonic_s, (clock.now_us() - then.at_us) / 1e6)


def back_off(clock: Clock, attempt: int, chance: Callable[[], float] = random.random) -> None:
    """Sleep after a lost conditional write, for a random time that doubles on average with each attempt, up to 1.3 s.

    Args:
        clock: Sleeps.
        attempt: Number of the lost attempt, from 0.
        chance: Returns a number from 0 to 1.
    """
    clock.sleep(chance() * _FIRST_PAUSE_S * 2 ** min(attempt, _MOST_DOUBLINGS))
