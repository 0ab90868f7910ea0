"""Monotonic reads: a reader never returns an older version of an object after a newer one.

Right after a write, some copies are older than S3's object. ETags are unordered, so only a later read of S3 can tell
which of two versions is newer. A copy is returned if its version equals the last returned version, or if no version of
its key has been returned yet. Otherwise the reader asks S3, once per write and reader.

The order of two overlapping responses from S3 is unknown. If they differ, the key is in doubt, and the reader returns
no copy until a read of S3 that started after the conflict confirms the last response. This read may overlap with
others, since under load reads always overlap.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from cachetools import LRUCache

from burstcache.adapters.clock import Clock, Instant

_MOST_KEYS = 1 << 13  # about 2 MB; recent keys are enough, since copies differ only briefly after a write
ABSENT = ""  # the version of an object that does not exist


@dataclass(frozen=True, slots=True)
class _Last:
    version: str
    at_s: float  # time of the response
    in_doubt_since_s: float | None = None  # time of the last conflicting response; None: no doubt


class MonotonicReads:
    """The last returned version (ETag) of each recently read key. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: LRUCache[str, _Last] = LRUCache(_MOST_KEYS)
        self._lock = threading.Lock()

    def may_follow(self, hash_: str, version: str) -> bool:
        """Return True if a copy may be returned. Record the first copy of a key as its last returned version."""
        with self._lock:
            last = self._last.get(hash_)
            if last is None:
                self._last[hash_] = _Last(version, self._clock.monotonic_s())
            return last is None or (last.version == version and last.in_doubt_since_s is None)

    def record(self, hash_: str, version: str, asked: Instant) -> None:
        """Record a version that S3 returned.

        Args:
            hash_: The key's hash.
            version: The object's ETag. Empty: no object.
            asked: A time before the request to S3.
        """
        with self._lock:
            now_s, last = self._clock.monotonic_s(), self._last.get(hash_)
            self._last[hash_] = _Last(version, now_s, _in_doubt_since_s(last, version, asked.monotonic_s, now_s))


def _in_doubt_since_s(last: _Last | None, version: str, asked_s: float, now_s: float) -> float | None:
    """Return the time since which the key is in doubt, or None if it is not."""
    if last is None or asked_s >= last.at_s:
        return None
    if version != last.version:  # overlapping responses: either may be newer
        return now_s
    since_s = last.in_doubt_since_s
    return None if since_s is None or asked_s >= since_s else since_s
