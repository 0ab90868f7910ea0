"""Clocks under a test's control."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

from burstcache.adapters.clock import SystemClock
from support.waiting import LIMIT_S

T = TypeVar("T")


class SleptClock(SystemClock):
    """Clock of a machine that slept. Only its wall time includes the sleep, as in a frozen Lambda environment.

    No other time passes, neither wall nor monotonic.
    """

    def __init__(self) -> None:
        self.slept_s = 0

    def now_us(self) -> int:
        return self.slept_s * 1_000_000

    def monotonic_s(self) -> float:
        return 0


class ManualClock(SystemClock):
    """Clock that moves only when a test sets `now_s`. A sleep advances it at once, a wait for a thread does not."""

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
    """Clock whose wall time jumps back or forward while its monotonic time continues."""

    def __init__(self, now_s: float = 0.0) -> None:
        super().__init__(now_s)
        self.step_s = 0.0

    def now_us(self) -> int:
        return round((self.now_s + self.step_s) * 1_000_000)
