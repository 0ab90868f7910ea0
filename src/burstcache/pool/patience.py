"""How long answers of members usually take: one that takes longer is late, and others are asked as well."""

from __future__ import annotations

import statistics
from collections import deque

_REMEMBERED = 200
_LEARNS_EVERY = 20
_FIRST_S = 0.2  # before anything is learnt: a member that is woken needs less, as a rule
_MOST = 0.5  # of the limit: the others need the rest


class Patience:
    """What 95 % of the last reads did not take longer than.

    Args:
        limit_s: How long a read may take in all [s].

    Attributes:
        limit_s: How long to wait before one is late [s].
    """

    def __init__(self, limit_s: float) -> None:
        self._most_s = _MOST * limit_s
        self._took_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._count = 0
        self.limit_s = min(self._most_s, _FIRST_S)

    def learn(self, took_s: float) -> None:
        """Learn how long one has taken."""
        self._took_s.append(took_s)
        self._count += 1
        if self._count % _LEARNS_EVERY == 0:
            self.limit_s = min(self._most_s, statistics.quantiles(self._took_s, n=20)[-1])
