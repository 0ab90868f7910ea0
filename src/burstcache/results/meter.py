"""Meter for cached functions: publishes CloudWatch metrics of calls by result source.

The environment variable BURSTCACHE_RESULTS_METRICS enables the meter. Its value is the dimension `Application`.
"""

from __future__ import annotations

import atexit
import os
import weakref

from burstcache.adapters.clock import Clock
from burstcache.forks import new_lock
from burstcache.metrics import APPLICATION, RESULT_CALLS, MetricBatch, write

VARIABLE = "BURSTCACHE_RESULTS_METRICS"


class ResultMeter:
    """Counts calls by result source, and writes each batch during a later call. Thread-safe."""

    def __init__(self, application: str, clock: Clock) -> None:
        """Start with an empty batch.

        Args:
            application: The value of the metrics' dimension.
            clock: Measures the age of batches.
        """
        self._batch = MetricBatch(clock, {APPLICATION: application})
        self._lock = new_lock(self)
        atexit.register(_write_rest, weakref.ref(self))

    @classmethod
    def from_environment(cls, clock: Clock) -> ResultMeter | None:
        """Return a meter if the environment variable is set, or None."""
        application = os.environ.get(VARIABLE, "")
        return cls(application, clock) if application else None

    def count(self, source: str) -> None:
        """Count a call. If the previous batch is due, write it first, so that each batch has its own timestamp."""
        with self._lock:
            lines = self._batch.take() if self._batch.is_due else []
            self._batch.count(RESULT_CALLS, source)
        write(lines)

    def write(self) -> None:
        """Write the batch, and begin the next one."""
        with self._lock:
            lines = self._batch.take()
        write(lines)

    def after_fork(self) -> None:
        """Replace the lock, and drop the counts, which the parent writes."""
        self._lock = new_lock(self)
        self._batch.take()


def _write_rest(reference: weakref.ref[ResultMeter]) -> None:
    """Write the last batch at a normal process exit."""
    if (meter := reference()) is not None:
        meter.write()
