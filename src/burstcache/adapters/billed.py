"""Billed invocations and duration of a Lambda execution environment, measured from the inside."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from burstcache.adapters.clock import Clock


class Billed:
    """A meter of invocations and their duration, which is read at intervals.

    Args:
        clock: Source of time.
        init_s: Duration of the INIT phase, which is also billed [s].
    """

    def __init__(self, clock: Clock, init_s: float = 0.0) -> None:
        self._clock = clock
        self._unread_s = init_s
        self._count = 0
        self._since_s: float | None = None

    @contextmanager
    def invocation(self) -> Iterator[None]:
        """Meter an invocation for the duration of a `with` block."""
        self._count += 1
        self._since_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._add()
            self._since_s = None

    def read_usage(self) -> tuple[int, int]:
        """Return the invocations started and the duration [ms] since the last call."""
        self._add()
        count, ms = self._count, math.ceil(round(self._unread_s * 1000, 3))
        self._count, self._unread_s = 0, 0.0
        return count, ms

    def _add(self) -> None:
        if self._since_s is not None:
            now_s = self._clock.monotonic_s()
            self._unread_s += now_s - self._since_s
            self._since_s = now_s
