"""Which version of each object a reader has answered last, so that it never answers an older one after it.

For a moment after a write some copies are older than what S3 sends, and no ETag says which of two is the newer: only
S3, asked afterwards, can. So a copy is answered if it is the version that was answered last, or the first one of its
key; of any other S3 decides, once per write and reader.

Of two answers of S3 that overlapped nobody knows which was the later one. Then the key is in doubt, and no copy is
answered until S3 has said once more what it said last, to a read that began after that. Other reads may be under way
meanwhile: under load they never stop overlapping.
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
    version: str
    at_s: float  # when it was
    in_doubt_since_s: float | None = None  # S3 has answered nothing else since then


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
            return last is None or (last.version == version and last.in_doubt_since_s is None)

    def note(self, hash_: str, version: str, asked: Instant) -> None:
        """Note what S3 has answered.

        Args:
            hash_: The key's hash.
            version: The object's ETag; empty: there is none.
            asked: Before S3 was.
        """
        with self._lock:
            now_s, last = self._clock.monotonic_s(), self._last.get(hash_)
            self._last[hash_] = _Last(version, now_s, _in_doubt_since_s(last, version, asked.monotonic_s, now_s))


def _in_doubt_since_s(last: _Last | None, version: str, asked_s: float, now_s: float) -> float | None:
    """Return since when it is in doubt whether this answer of S3 is the newest one; None: it is."""
    if last is None or asked_s >= last.at_s:
        return None
    if version != last.version:  # what was answered meanwhile may be newer, or older
        return now_s
    since_s = last.in_doubt_since_s
    return None if since_s is None or asked_s >= since_s else since_s
