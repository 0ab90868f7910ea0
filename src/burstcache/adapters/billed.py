"""What an environment of a function is billed for, as it can see that itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from burstcache.adapters.clock import Clock


class Billed:
    """Counts invocations and their time, to be passed on.

    Args:
        clock: Time.
        init_s: How long the environment has taken to begin, which is billed, too [s].
    """

    def __init__(self, clock: Clock, init_s: float = 0.0) -> None:
        self._clock = clock
        self._untold_s = init_s
        self._count = 0
        self._since_s: float | None = None

    @contextmanager
    def invocation(self) -> Iterator[None]:
        """Count an invocation, from beginning to end."""
        self._count += 1
        self._since_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._add()
            self._since_s = None

    def tell(self) -> tuple[int, int]:
        """Return how many invocations have begun and their time until now [ms], apart from what was told before."""
        self._add()
        count, ms = self._count, math.ceil(round(self._untold_s * 1000, 3))
        self._count, self._untold_s = 0, 0.0
        return count, ms

    def _add(self) -> None:
        if self._since_s is not None:
            now_s = self._clock.monotonic_s()
            self._untold_s += now_s - self._since_s
            self._since_s = now_s
