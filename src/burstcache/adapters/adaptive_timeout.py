"""Adaptive timeout for the optional tiers of a read, proportional to the latency of S3, their common fallback."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import TypeVar

from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.deadline import LEAST_BYTES_PER_S
from burstcache.core.errors import ServiceTransientError
from burstcache.traces import with_trace_context

T = TypeVar("T")

LEAST_S, MOST_S = 0.25, 1.0
_UNKNOWN_S = 0.35  # budget without a recent S3 latency
_RECENT_S = 10.0
_MULTIPLE = 4  # multiple of S3's latency, within which a slow tier may still beat the fallback
_WEIGHT = 1 / 8  # weight of the latest sample in the moving average of S3's latency
_WORKERS = 2  # one current call, and one abandoned
_LEAST_WAIT_S = 0.01  # minimum timeout of any attempt
_MOST_THREADS = 64  # concurrent calls, as many as a client has threads
_ENOUGH = 1 / 5  # share of the budget: at least 50 ms, enough for a healthy tier
_FAIR = 1 / 2  # share of the budget. A timeout with less budget left does not count against a tier
_TRIAL = 1 / 2  # share of the budget for the trial of a failed tier (half-open circuit breaker)


class _Read(threading.local):
    """The remaining timeout budget of this thread's read, or None outside of a read."""

    left_s: float | None = None
    until_s: float | None = None  # end of the current wait for a tier


class AdaptiveTimeout:
    """A timeout budget per read: four times S3's current latency, from 0.25 to 1 s. Thread-safe.

    On an idle machine a hung tier is abandoned before a client notices. On a busy machine all responses are late,
    including S3's, so the budget grows and a healthy tier is not abandoned. Latencies older than 10 s are ignored.
    Otherwise a reader could keep a timeout of a second forever, after a single S3 read that was slow because it opened
    connections. All tiers tried by one read share one budget.
    """

    def __init__(self, *, least_s: float = LEAST_S, most_s: float = MOST_S, clock: Clock | None = None) -> None:
        """Start without a known S3 latency. The budget stays between `least_s` and `most_s`."""
        self._least_s, self._most_s = least_s, most_s
        self._clock = clock or SystemClock()
        self._read = _Read()
        self._s3_s = 0.0
        self._s3_sampled_s = -math.inf

    @property
    def wait_s(self) -> float:
        """Timeout of one response [s]. Within a read, at most the read's remaining budget."""
        if (until_s := self._read.until_s) is None:
            return self._budget_s
        return max(min(self._budget_s, until_s - self._clock.monotonic_s()), _LEAST_WAIT_S)

    @property
    def most_wait_s(self) -> float:
        """Timeout of a response while its bytes keep arriving [s]. It limits a read's total wait to `most_s`."""
        return self.wait_s + self._most_s - self._budget_s

    @property
    def _budget_s(self) -> float:
        wait_s = _MULTIPLE * self._s3_s if self._is_s3_known else _UNKNOWN_S
        return min(max(wait_s, self._least_s), self._most_s)

    @property
    def _is_s3_known(self) -> bool:
        return self._clock.monotonic_s() - self._s3_sampled_s <= _RECENT_S

    def begin(self) -> None:
        """Begin a read in this thread with a full budget."""
        self._read.left_s = math.inf  # the first wait sets the bound: most hits wait for nothing

    def shared(self, call: Callable[[], T]) -> Callable[[], T]:
        """Wrap a call for another thread, so that it has what is left of this read's budget."""
        left_s = self._read.left_s

        def limited() -> T:
            self._read.left_s = left_s
            return call()

        return limited

    @property
    def is_exhausted(self) -> bool:
        """Whether the remaining budget is too short for another tier to respond."""
        return not self._has_left(_ENOUGH)

    @property
    def is_fair(self) -> bool:
        """Whether the remaining budget is long enough to count a timeout against a tier."""
        return self._has_left(_FAIR)

    def blames(self, *, was_fair: bool) -> bool:
        """Return True if a failure counts against the tier, since it was fast or the budget was fair at the start."""
        return was_fair or not self.is_exhausted

    def _has_left(self, share: float) -> bool:
        return self._read.left_s is None or self._read.left_s >= self._budget_s * share

    @contextmanager
    def waiting(self, *, is_trial: bool = False) -> Iterator[None]:
        """Charge the duration of a `with` block to the read's budget. S3's own time is never charged.

        Args:
            is_trial: Limit the wait to half of the budget, since the tier has failed recently.
        """
        if (left_s := self._read.left_s) is None:
            yield
            return
        left_s = self._budget_s if left_s == math.inf else left_s
        began_s = self._clock.monotonic_s()
        self._read.until_s = began_s + (min(left_s, self._budget_s * _TRIAL) if is_trial else left_s)
        try:
            yield
        finally:
            self._read.left_s, self._read.until_s = left_s - (self._clock.monotonic_s() - began_s), None

    def record_s3_latency(self, duration_s: float) -> None:
        """Add a sample of S3's latency to the moving average [s]."""
        weight = _WEIGHT if self._is_s3_known else 1.0
        self._s3_sampled_s = self._clock.monotonic_s()
        self._s3_s += weight * (min(duration_s, self._most_s) - self._s3_s)


def with_timeout(call: Callable[[], T], timeout: AdaptiveTimeout) -> Callable[[], T]:
    """Wrap a call so that it raises ServiceTransientError after the timeout.

    An abandoned call continues in its thread until its own timeout.
    """
    workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="burstcache-in-time")

    def bounded() -> T:
        with timeout.waiting():
            wait_s = timeout.wait_s
            result: Future[T] = workers.submit(with_trace_context(call))
            try:
                return result.result(wait_s)
            except FutureTimeoutError:
                if result.done():  # the call itself has timed out
                    raise
                result.cancel()
                raise ServiceTransientError(f"no answer in {wait_s:.2f} s") from None

    return bounded


class BoundedCalls:
    """Calls with an adaptive timeout, extended by the transfer time of received bytes.

    Each call runs in a thread. An abandoned call ends when it next reports bytes, or at its own timeout.
    """

    def __init__(self, timeout: AdaptiveTimeout, clock: Clock) -> None:
        """Start without threads.

        Args:
            timeout: Timeout of each call.
            clock: Source of time.
        """
        self._timeout = timeout
        self._clock = clock
        self._workers = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="burstcache-in-time")

    def run(self, call: Callable[[Callable[[int], None]], T]) -> T:
        """Make a call and return its result. Raise ServiceTransientError if it times out.

        The call reports received bytes through its argument. These bytes extend the timeout, at the bandwidth
        assumed by `adapters/deadline`.
        """
        began_s, wait_s, most_s = self._clock.monotonic_s(), self._timeout.wait_s, self._timeout.most_wait_s
        received_bytes, is_abandoned = 0, False

        def report(size_bytes: int) -> None:
            nonlocal received_bytes
            received_bytes += size_bytes
            if is_abandoned:
                raise ServiceTransientError("the call was abandoned")

        result: Future[T] = self._workers.submit(with_trace_context(lambda: call(report)))
        while True:
            until_s = began_s + min(wait_s + received_bytes / LEAST_BYTES_PER_S, most_s)
            if (left_s := until_s - self._clock.monotonic_s()) <= 0 and not result.done():
                is_abandoned = True
                result.cancel()
                raise ServiceTransientError(f"no answer in {until_s - began_s:.2f} s")
            try:
                return result.result(max(left_s, 0))
            except FutureTimeoutError:
                if result.done():  # the call itself has timed out
                    raise
