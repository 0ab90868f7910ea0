"""Breakers leave a part that has just failed alone: a dead tier costs one time-out, not one per read."""

from __future__ import annotations

from collections.abc import Hashable

from burstcache.adapters.clock import Clock

OPEN_S = 5.0
_MAX_KNOWN = 1024


class Breakers:
    """Which parts not to ask now. Closed until `fail`, then open for a while; one more failure opens it again."""

    def __init__(self, clock: Clock, *, open_s: float = OPEN_S) -> None:
        self._clock = clock
        self._open_s = open_s
        self._open_until_s: dict[Hashable, float] = {}

    def is_open(self, name: Hashable) -> bool:
        """Whether to do without `name`."""
        return self._clock.monotonic_s() < self._open_until_s.get(name, float("-inf"))

    def fail(self, name: Hashable) -> None:
        """Note that `name` failed now."""
        if len(self._open_until_s) >= _MAX_KNOWN:
            known = list(self._open_until_s.items())  # a copy: another thread may note a failure meanwhile
            self._open_until_s = {each: at_s for each, at_s in known if self.is_open(each)}
        self._open_until_s[name] = self._clock.monotonic_s() + self._open_s
