"""What an environment of the proxy has served, gathered until it is written as metrics."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.core.errors import RedisDownError, RelayDownError, SilentHolderError
from burstcache.metrics import (
    FAILED_READS,
    FALLBACKS,
    LATENCY_MS,
    MOST_VALUES,
    READ_BYTES,
    STACK,
    STACK_VARIABLE,
    Metric,
    emf_line,
    write,
)

_EVERY_S = 10.0


class ReadMeter:
    """Gathers reads, and writes them alongside a later one: no thread of a frozen environment could.

    A batch goes out with the first read ten seconds after it began, at once when it is full or a read has failed. What
    an environment has not written when it is reclaimed is lost: what it served in its last ten seconds of work.
    """

    def __init__(self, clock: Clock) -> None:
        """Have nothing to write yet; `clock` is what batches age by."""
        self._clock = clock
        self._stack = os.environ.get(STACK_VARIABLE, "")
        self._latencies_ms: defaultdict[str, list[float]] = defaultdict(list)  # by tier, as the next ones
        self._sizes_bytes: defaultdict[str, list[int]] = defaultdict(list)
        self._fallbacks: Counter[str] = Counter()
        self._failed = 0
        self._since: Instant | None = None  # of the first read that waits

    def served(self, tier: str, latency_ms: float, size_bytes: int) -> None:
        """Count a read that a tier has served."""
        self._begin()
        latencies_ms = self._latencies_ms[tier]
        latencies_ms.append(round(latency_ms, 1))
        self._sizes_bytes[tier].append(size_bytes)
        if len(latencies_ms) == MOST_VALUES:
            self.write()

    def failed(self) -> None:
        """Count a read that was answered with a 5xx, where an alarm sees it at once."""
        self._begin()
        self._failed += 1
        self.write()

    def fell_back(self, error: Exception | None) -> None:
        """Count a tier that failed, or was left alone because it had (None), so that one below it serves."""
        self._fallbacks[_reason(error)] += 1

    def write(self) -> None:
        """Write what waits, if this process is one of a stack's functions."""
        if self._since is None:
            return
        if self._stack:
            write(self._lines(self._since.at_us // 1000))
        self._latencies_ms.clear()
        self._sizes_bytes.clear()
        self._fallbacks.clear()
        self._failed, self._since = 0, None

    def _begin(self) -> None:
        """Begin a batch, unless one has begun lately."""
        if self._since is not None and seconds_since(self._clock, self._since) >= _EVERY_S:
            self.write()
        if self._since is None:
            self._since = instant(self._clock)

    def _lines(self, at_ms: int) -> Iterator[str]:
        for tier, latencies_ms in self._latencies_ms.items():
            figures: dict[Metric, list[float]] = {LATENCY_MS: latencies_ms, READ_BYTES: [*self._sizes_bytes[tier]]}
            yield emf_line(figures, {STACK: self._stack, LATENCY_MS.dimension: tier}, at_ms=at_ms)
        for reason, count in self._fallbacks.items():
            yield emf_line({FALLBACKS: [count]}, {STACK: self._stack, FALLBACKS.dimension: reason}, at_ms=at_ms)
        if self._failed:
            yield emf_line({FAILED_READS: [self._failed]}, {STACK: self._stack}, at_ms=at_ms)


def _reason(error: Exception | None) -> str:
    if error is None:
        return "left_alone"
    if isinstance(error, SilentHolderError):
        return "silent"
    if isinstance(error, RelayDownError):
        return "relay_down"
    return "redis_down" if isinstance(error, RedisDownError) else "other"
