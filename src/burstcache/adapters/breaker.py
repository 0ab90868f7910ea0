"""Breakers leave a part that has just failed alone: a dead tier costs one time-out, not one per read."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import NamedTuple

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since

OPEN_S = 5.0
_MAX_KNOWN = 1024


class _Failed(NamedTuple):
    """A part that failed: how long nobody asks it, and whether that is because a caller is finding out."""

    since: Instant
    pause_s: float
    is_tried: bool


class Breakers:
    """Which parts not to ask now: each that has failed, until a caller finds that it is back. Threads may share it.

    After a pause one caller is let through, and the others do without the part until that one has said how it went. So
    a part that hangs costs one time-out a pause, however many ask. A caller that says nothing within another pause
    counts as one that failed.
    """

    def __init__(self, clock: Clock, *, open_s: float = OPEN_S) -> None:
        self._clock = clock
        self._open_s = open_s
        self._failed: dict[Hashable, _Failed] = {}
        self._lock = threading.Lock()

    def is_open(self, *names: Hashable) -> bool:
        """Whether to do without what needs all of these; a caller that gets False asks them."""
        if not any(name in self._failed for name in names):
            return False
        with self._lock:
            known = [name for name in names if name in self._failed]
            if any(self._is_paused(self._failed[name]) for name in known):
                return True
            now = instant(self._clock)
            self._failed |= {name: _Failed(now, self._open_s, is_tried=True) for name in known}
            return False

    def succeed(self, *names: Hashable) -> None:
        """Note that these are well. An answer that was asked for before the failure, and comes late, says nothing."""
        for name in names:
            if name in self._failed:
                with self._lock:
                    if name in self._failed and self._failed[name].is_tried:
                        del self._failed[name]

    def is_tried(self, *names: Hashable) -> bool:
        """Whether a caller is finding out how one of these is."""
        return any(failed.is_tried for name in names if (failed := self._failed.get(name)))

    def release(self, name: Hashable) -> None:
        """Note that a caller has not found out how `name` is: the next one does."""
        if name in self._failed:
            self.doubt(name)

    def doubt(self, name: Hashable) -> None:
        """Have the next caller find out how `name` is, and the others do without it meanwhile."""
        with self._lock:
            if name not in self._failed or self._failed[name].is_tried:
                self._failed[name] = _Failed(instant(self._clock), 0, is_tried=False)

    def fail(self, name: Hashable) -> None:
        """Note that `name` failed now."""
        with self._lock:
            if len(self._failed) >= _MAX_KNOWN:
                self._failed = {each: failed for each, failed in self._failed.items() if self._is_paused(failed)}
            self._failed[name] = _Failed(instant(self._clock), self._open_s, is_tried=False)

    def _is_paused(self, failed: _Failed) -> bool:
        return seconds_since(self._clock, failed.since) < failed.pause_s
