"""Breakers leave a part that has just failed alone: a dead tier costs one time-out, not one per read."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import NamedTuple

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since

FIRST_S, OPEN_S = 0.5, 5.0
_MAX_KNOWN = 1024


class _Failed(NamedTuple):
    """A part that failed: how long nobody asks it, the next time, too, and whether a caller is finding out."""

    since: Instant
    pause_s: float
    next_pause_s: float
    is_tried: bool


class Breakers:
    """Which parts not to ask now: each that has failed, until a caller finds that it is back. Threads may share it.

    After a pause one caller is let through, and the others do without the part until that one has said how it went. So
    a part that hangs costs one time-out a pause, however many ask. A caller that says nothing within another pause
    counts as one that failed.

    Each pause is twice as long as the one before, from `first_s` to `open_s`, if a part fails when it is tried or soon
    after it was found well: a machine that stands still for a moment costs a moment, a part that drowns is left alone.
    """

    def __init__(self, clock: Clock, *, first_s: float = OPEN_S, open_s: float = OPEN_S) -> None:
        self._clock = clock
        self._first_s, self._open_s = first_s, open_s
        self._failed: dict[Hashable, _Failed] = {}
        self._recovered: dict[Hashable, tuple[Instant, float]] = {}  # when, and the pause if it fails soon after
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
            for name in known:
                self._failed[name] = _Failed(now, self._open_s, self._failed[name].next_pause_s, is_tried=True)
            return False

    def succeed(self, *names: Hashable) -> None:
        """Note that these are well. An answer that was asked for before the failure, and comes late, says nothing."""
        for name in names:
            if name in self._failed:
                with self._lock:
                    if name in self._failed and self._failed[name].is_tried:
                        self._recovered[name] = instant(self._clock), self._failed.pop(name).next_pause_s

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
            failed = self._failed.get(name)
            if failed is None or failed.is_tried:
                next_pause_s = failed.next_pause_s if failed else self._first_s
                self._failed[name] = _Failed(instant(self._clock), 0, next_pause_s, is_tried=False)

    def fail(self, name: Hashable) -> None:
        """Note that `name` failed now."""
        with self._lock:
            if len(self._failed) >= _MAX_KNOWN:
                self._failed = {each: failed for each, failed in self._failed.items() if self._is_paused(failed)}
            pause_s = self._pause_s(name)
            next_pause_s = min(2 * pause_s, self._open_s)
            self._failed[name] = _Failed(instant(self._clock), pause_s, next_pause_s, is_tried=False)

    def _pause_s(self, name: Hashable) -> float:
        if failed := self._failed.get(name):
            return failed.pause_s if self._is_paused(failed) and not failed.is_tried else failed.next_pause_s
        self._recovered = {each: known for each, known in self._recovered.items() if self._is_recent(known[0])}
        _, pause_s = self._recovered.get(name, (None, self._first_s))
        return pause_s

    def _is_recent(self, since: Instant) -> bool:
        return seconds_since(self._clock, since) < self._open_s

    def _is_paused(self, failed: _Failed) -> bool:
        return seconds_since(self._clock, failed.since) < failed.pause_s
