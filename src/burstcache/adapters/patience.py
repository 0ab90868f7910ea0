"""How long a read waits for a part that it can do without, S3 having the object anyway."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from burstcache.core.errors import ServiceTransientError
from burstcache.traces import carried

T = TypeVar("T")

LEAST_S, MOST_S = 0.25, 1.0
_FIRST_S = 0.5  # before S3 has been asked
_TIMES = 4  # what S3 takes: below that a slow answer may still be the sooner one
_WEIGHT = 1 / 8  # of the newest answer of S3
_WORKERS = 2  # one call at a time, and one that was given up


class Patience:
    """A wait in proportion to what S3 takes here and now, from 0.25 to 1 s. Threads may share it.

    On a machine with idle cores a part that hangs is left before a client notices; on one that is busy all answers are
    late, those of S3 too, and nothing is wrong with the part.
    """

    def __init__(self, *, least_s: float = LEAST_S, most_s: float = MOST_S) -> None:
        """Know nothing of S3 yet; the wait is never below `least_s` nor above `most_s`."""
        self._least_s, self._most_s = least_s, most_s
        self._s3_s = _FIRST_S / _TIMES
        self._is_first = True

    @property
    def wait_s(self) -> float:
        """How long to wait for an answer [s]."""
        return min(max(_TIMES * self._s3_s, self._least_s), self._most_s)

    def s3_took(self, duration_s: float) -> None:
        """Note how long S3 has taken to answer [s]."""
        weight = 1.0 if self._is_first else _WEIGHT
        self._is_first = False
        self._s3_s += weight * (min(duration_s, self._most_s) - self._s3_s)


def in_time(call: Callable[[], T], patience: Patience) -> Callable[[], T]:
    """Return a call that raises ServiceTransientError instead of waiting longer than `patience`.

    What was given up ends by its own time-out, in a thread that nobody waits for.
    """
    workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="burstcache-in-time")

    def bounded() -> T:
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
