"""The hedging delay: how long to wait for the first members before requesting chunks from the others as well."""

from __future__ import annotations

import statistics
from collections import deque

_SAMPLES = 200
_UPDATE_EVERY = 20  # reads
_INITIAL_S = 0.2  # until enough reads have been measured; even the start of a member usually takes less
_MAX_SHARE = 0.5  # of the limit; the other members need the rest


class HedgeDelay:
    """The 95th percentile of the last 200 read durations, at most half of the time limit.

    Args:
        limit_s: Time limit of a read [s].

    Attributes:
        delay_s: How long to wait before hedging [s].
    """

    def __init__(self, limit_s: float) -> None:
        self._max_s = _MAX_SHARE * limit_s
        self._durations_s: deque[float] = deque(maxlen=_SAMPLES)
        self._count = 0
        self.delay_s = min(self._max_s, _INITIAL_S)

    def record(self, duration_s: float) -> None:
        """Record the duration of a successful read."""
        self._durations_s.append(duration_s)
        self._count += 1
        if self._count % _UPDATE_EVERY == 0:
            self.delay_s = min(self._max_s, statistics.quantiles(self._durations_s, n=20)[-1])
