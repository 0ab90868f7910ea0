"""How long a read waits for a part that it can do without, S3 having the object anyway."""

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
from burstcache.traces import carried

T = TypeVar("T")

LEAST_S, MOST_S = 0.25, 1.0
_UNKNOWN_S = 0.35  # where S3 has not been asked lately
_LATELY_S = 10.0
_TIMES = 4  # what S3 takes: below that a slow answer may still be the sooner one
_WEIGHT = 1 / 8  # of the newest answer of S3
_WORKERS = 2  # one call at a time, and one that was given up
_MOMENT_S = 0.01  # a part that is asked gets this much at least
_AT_ONCE = 64  # calls that may be waited for, as many as a client has threads
_ENOUGH = 1 / 5  # of the whole wait: 50 ms at least, in which a tier that is well answers
_FAIR = 1 / 2  # of the whole wait: a part that had less is not to blame for having no answer
_TRIAL = 1 / 2  # of the whole wait, of a read that finds out how a part is that has failed


class _Read(threading.local):
    """What the read that a thread has under way has left of its wait; None: no read has begun."""

    left_s: float | None = None
    until_s: float | None = None  # while it waits for a part


class Patience:
    """A wait in proportion to what S3 takes here and now, from 0.25 to 1 s. Threads may share it.

    On a machine with idle cores a part that hangs is left before a client notices; on one that is busy all answers are
    late, those of S3 too, and nothing is wrong with the part. What S3 took longer ago than 10 s says nothing of now: a
    reader whose one read from S3 was its first, with connections to make, would wait for a second ever after. All parts
    that one read asks share one wait.
    """

    def __init__(self, *, least_s: float = LEAST_S, most_s: float = MOST_S, clock: Clock | None = None) -> None:
        """Know nothing of S3 yet; the wait is never below `least_s` nor above `most_s`."""
        self._least_s, self._most_s = least_s, most_s
        self._clock = clock or SystemClock()
        self._read = _Read()
        self._s3_s = 0.0
        self._s3_asked_s = -math.inf

    @property
    def wait_s(self) -> float:
        """How long to wait for an answer [s]: in a read not longer than is left of its wait."""
        if (until_s := self._read.until_s) is None:
            return self._whole_s
        return max(min(self._whole_s, until_s - self._clock.monotonic_s()), _MOMENT_S)

    @property
    def most_wait_s(self) -> float:
        """Return the time-out of an answer whose bytes keep coming [s]; a read waits no longer than `most_s` in all."""
        return self.wait_s + self._most_s - self._whole_s

    @property
    def _whole_s(self) -> float:
        wait_s = _TIMES * self._s3_s if self._is_s3_known else _UNKNOWN_S
        return min(max(wait_s, self._least_s), self._most_s)

    @property
    def _is_s3_known(self) -> bool:
        return self._clock.monotonic_s() - self._s3_asked_s <= _LATELY_S

    def begin(self) -> None:
        """Begin a read in this thread, which has all of its wait before it."""
        self._read.left_s = self._whole_s

    @property
    def is_used_up(self) -> bool:
        """Whether the read has waited so long that no more parts are asked: too little is left for an answer."""
        return not self._has_left(_ENOUGH)

    @property
    def is_fair(self) -> bool:
        """Whether so much is left that a part which has no answer until then is to blame for it."""
        return self._has_left(_FAIR)

    def blames(self, *, was_fair: bool) -> bool:
        """Whether a part is to blame that has just failed: at once, or in a wait that was fair when it began."""
        return was_fair or not self.is_used_up

    def _has_left(self, share: float) -> bool:
        return self._read.left_s is None or self._read.left_s >= self._whole_s * share

    @contextmanager
    def waiting(self, *, is_trial: bool = False) -> Iterator[None]:
        """Take the duration of a `with` from what the read has left; S3's own time is not taken.

        Args:
            is_trial: Whether the part has failed before: then it gets half of the whole wait at most.
        """
        if (left_s := self._read.left_s) is None:
            yield
            return
        began_s = self._clock.monotonic_s()
        self._read.until_s = began_s + (min(left_s, self._whole_s * _TRIAL) if is_trial else left_s)
        try:
            yield
        finally:
            self._read.left_s, self._read.until_s = left_s - (self._clock.monotonic_s() - began_s), None

    def s3_took(self, duration_s: float) -> None:
        """Note how long S3 has taken to answer [s]."""
        weight = _WEIGHT if self._is_s3_known else 1.0
        self._s3_asked_s = self._clock.monotonic_s()
        self._s3_s += weight * (min(duration_s, self._most_s) - self._s3_s)


def in_time(call: Callable[[], T], patience: Patience) -> Callable[[], T]:
    """Return a call that raises ServiceTransientError instead of waiting longer than `patience`.

    What was given up ends by its own time-out, in a thread that nobody waits for.
    """
    workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="burstcache-in-time")

    def bounded() -> T:
        with patience.waiting():
            wait_s = patience.wait_s
            answer: Future[T] = workers.submit(carried(call))
            try:
                return answer.result(wait_s)
            except FutureTimeoutError:
                if answer.done():  # a time-out of its own
                    raise
                answer.cancel()
                raise ServiceTransientError(f"no answer in {wait_s:.2f} s") from None

    return bounded


class InTime:
    """Calls that are waited for no longer than patience has it, but for as long as a fair link takes for their bytes.

    Each runs in a thread, which nobody waits for once it was given up: it ends when it next reports bytes, or by its
    own time-out.
    """

    def __init__(self, patience: Patience, clock: Clock) -> None:
        """Have no thread yet.

        Args:
            patience: How long to wait.
            clock: Tells the time.
        """
        self._patience = patience
        self._clock = clock
        self._workers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="burstcache-in-time")

    def run(self, call: Callable[[Callable[[int], None]], T]) -> T:
        """Return what a call does, which reports the bytes that it receives; raise ServiceTransientError if it is late.

        A link is fair that has the bandwidth of `adapters/deadline`.
        """
        began_s, wait_s, most_s = self._clock.monotonic_s(), self._patience.wait_s, self._patience.most_wait_s
        received_bytes, is_given_up = 0, False

        def report(size_bytes: int) -> None:
            nonlocal received_bytes
            received_bytes += size_bytes
            if is_given_up:
                raise ServiceTransientError("nobody waits for it any more")

        answer: Future[T] = self._workers.submit(carried(lambda: call(report)))
        while True:
            until_s = began_s + min(wait_s + received_bytes / LEAST_BYTES_PER_S, most_s)
            if (left_s := until_s - self._clock.monotonic_s()) <= 0 and not answer.done():
                is_given_up = True
                answer.cancel()
                raise ServiceTransientError(f"no answer in {until_s - began_s:.2f} s")
            try:
                return answer.result(max(left_s, 0))
            except FutureTimeoutError:
                if answer.done():  # a time-out of its own
                    raise
