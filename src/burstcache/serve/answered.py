"""Which version of each object a reader has answered last, so that it never answers an older one after it.

For a moment after a write some copies are older than what S3 sends, and no ETag says which of two is the newer: only
S3, asked afterwards, can. So a copy is answered if it is the version that was answered last, or the first one of its
key; of any other S3 decides, once per write and reader.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from cachetools import LRUCache

from burstcache.adapters.clock import Clock, Instant

_MOST_KEYS = 1 << 13  # some 2 MB; copies differ for a moment after a write, so the keys of a moment are enough
ABSENT = ""  # the version of an object that does not exist


@dataclass(frozen=True, slots=True)
class _Last:
    version: str | None  # None: of two answers of S3 that overlapped nobody knows which was the later one
    at_s: float


class Answered:
    """The versions of the keys read lately, by their ETags. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: LRUCache[str, _Last] = LRUCache(_MOST_KEYS)
        self._lock = threading.Lock()

    def may_follow(self, hash_: str, version: str) -> bool:
        """Whether a copy may be answered; if it is the first one of its key, it is the version answered last now."""
        with self._lock:
            last = self._last.get(hash_)
            if last is None:
                self._last[hash_] = _Last(version, self._clock.monotonic_s())
            return last is None or last.version == version

    def note(self, hash_: str, version: str, asked: Instant) -> None:
        """Note what S3 has answered.

        Args:
            hash_: The key's hash.
            version: The object's ETag; empty: there is none.
            asked: Before S3 was.
        """
        with self._lock:
            last = self._last.get(hash_)
            if last is not None and last.version != version and asked.monotonic_s < last.at_s:
                version_now = None  # whatever was answered meanwhile may be newer, or older
            else:
                version_now = version
            self._last[hash_] = _Last(version_now, self._clock.monotonic_s())
