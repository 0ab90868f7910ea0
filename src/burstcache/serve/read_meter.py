"""Read meter: metrics of the proxy's reads, written in batches."""

from __future__ import annotations

import os

from burstcache.adapters.clock import Clock
from burstcache.core.errors import RedisDownError, RelayDownError, SilentHolderError
from burstcache.metrics import (
    FAILED_READS,
    FALLBACKS,
    LATENCY_MS,
    READ_BYTES,
    STACK,
    STACK_VARIABLE,
    MetricBatch,
    write,
)


class ReadMeter:
    """A collector of read metrics, which are written in batches during later reads.

    A batch is written by the first read ten seconds after its start, or immediately if it is full or a read fails.
    """

    def __init__(self, clock: Clock) -> None:
        """Start an empty batch. `clock` measures its age."""
        self._stack = os.environ.get(STACK_VARIABLE, "")
        self._batch = MetricBatch(clock, {STACK: self._stack})

    def served(self, tier: str, latency_ms: float, size_bytes: int) -> None:
        """Count a read that a tier served."""
        if self._batch.is_due:
            self.write()
        self._batch.add(tier, (LATENCY_MS, round(latency_ms, 1)), (READ_BYTES, size_bytes))
        if self._batch.is_full:
            self.write()

    def failed(self) -> None:
        """Count a 5xx response, and write the batch immediately for the alarm."""
        if self._batch.is_due:
            self.write()
        self._batch.count(FAILED_READS)
        self.write()

    def fell_back(self, error: Exception | None) -> None:
        """Count a fallback from a tier that failed or was skipped (None)."""
        if self._batch.is_due:
            self.write()
        self._batch.count(FALLBACKS, _reason(error))

    def write(self) -> None:
        """Write the batch if this process is a function of a stack, and start a new one."""
        lines = self._batch.take()
        if self._stack:
            write(lines)


def _reason(error: Exception | None) -> str:
    if error is None:
        return "left_alone"
    if isinstance(error, SilentHolderError):
        return "silent"
    if isinstance(error, RelayDownError):
        return "relay_down"
    return "redis_down" if isinstance(error, RedisDownError) else "other"
