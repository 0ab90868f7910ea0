"""Breakers: whoever failed just now is left alone for a while, so a dead tier costs one time-out, not one per read."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from burstcache.core.errors import BurstcacheError

OPEN_S = 5.0
_MAX_KNOWN = 1024


class KeyFailedError(BurstcacheError):
    """A tier is up, but did not serve this one key: the other keys need not do without it."""


class Breakers:
    """Who is not to be asked now. Closed until `fail`, then open for a while; one more failure opens it again."""

    def __init__(self, *, open_s: float = OPEN_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._open_s = open_s
        self._clock_s = clock_s
        self._open_until_s: dict[Hashable, float] = {}

    def is_open(self, name: Hashable) -> bool:
        """Tell whether to do without `name`."""
        return self._clock_s() < self._open_until_s.get(name, float("-inf"))

    def fail(self, name: Hashable) -> None:
        """Note that `name` failed now."""
        if len(self._open_until_s) >= _MAX_KNOWN:
            self._open_until_s = {known: at_s for known, at_s in self._open_until_s.items() if self.is_open(known)}
        self._open_until_s[name] = self._clock_s() + self._open_s
