"""A clock in the hands of a test."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

from burstcache.adapters.clock import SystemClock
from support.waiting import LIMIT_S

T = TypeVar("T")


class SleptClock(SystemClock):
    """The clock of a machine that has slept and counts its sleep in the time of day alone, as a Lambda environment may.

    By both of its times no other time passes.
    """

    def __init__(self) -> None:
        self.slept_s = 0

    def now_us(self) -> int:
        return self.slept_s * 1_000_000

    def monotonic_s(self) -> float:
        return 0


class ManualClock(SystemClock):
    """Stands still until a test sets `now_s`; a sleep lets its time pass at once, a wait for a thread takes none."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        return future.result(LIMIT_S)


class SteppedClock(ManualClock):
    """A clock whose wall time is set back or forward while its monotonic time goes on."""

    def __init__(self, now_s: float = 0.0) -> None:
        super().__init__(now_s)
        self.step_s = 0.0

    def now_us(self) -> int:
        return round((self.now_s + self.step_s) * 1_000_000)
