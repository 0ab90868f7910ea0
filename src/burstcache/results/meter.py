"""What functions' results were found where, as metrics of CloudWatch.

A program switches it on by the variable BURSTCACHE_RESULTS_METRICS, whose value is the dimension `Application`. Counts
gather and are printed alongside a later call, as no thread of a frozen environment could; those of its last seconds are
lost when it is reclaimed.
"""

from __future__ import annotations

import os
from collections import Counter

from burstcache.adapters.clock import Clock
from burstcache.forks import new_lock
from burstcache.metrics import APPLICATION, RESULT_CALLS, emf_line, write

VARIABLE = "BURSTCACHE_RESULTS_METRICS"
_EVERY_S = 10.0


class ResultMeter:
    """Gathers calls by what answered them. Threads share it."""

    def __init__(self, application: str, clock: Clock) -> None:
        """Have nothing to write yet.

        Args:
            application: The value of the metrics' dimension.
            clock: What batches age by.
        """
        self._application = application
        self._clock = clock
        self._lock = new_lock(self)
        self._counts: Counter[str] = Counter()
        self._since_s = 0.0

    @classmethod
    def from_environment(cls, clock: Clock) -> ResultMeter | None:
        """Return the meter that the environment asks for, if it does."""
        application = os.environ.get(VARIABLE, "")
        return cls(application, clock) if application else None

    def count(self, source: str) -> None:
        """Count a call, and write the batch that is due with it."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if not self._counts:
                self._since_s = now_s
            self._counts[source] += 1
            if now_s - self._since_s < _EVERY_S:
                return
            counts, self._counts = self._counts, Counter()
        at_ms = self._clock.now_us() // 1000
        dimensions = {APPLICATION: self._application}
        write(
            emf_line({RESULT_CALLS: [count]}, {**dimensions, RESULT_CALLS.dimension: source}, at_ms=at_ms)
            for source, count in counts.items()
        )

    def after_fork(self) -> None:
        """Make a new lock, and leave to the parent what it has counted."""
        self._lock, self._counts = new_lock(self), Counter()
