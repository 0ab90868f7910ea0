"""Results in this process, within a bound of bytes."""

from __future__ import annotations

from functools import partial

from cachetools import Cache, LFUCache, LRUCache

from burstcache.forks import new_lock
from burstcache.results.entries import Entry

LRU, LFU = "lru", "lfu"
EVICTIONS = (LRU, LFU)
MAX_BYTES = 64 << 20
_ENTRY_BYTES = 600  # an entry, its key and its places, apart from the payload: 484 to 505 were measured


class Memory:
    """Entries of bounded size; what was used least recently, or least often, leaves first. Threads share it."""

    name = "memory"

    def __init__(self, max_bytes: int = MAX_BYTES, *, eviction: str = LRU, ttl_ms: int | None = None) -> None:
        """Hold nothing.

        Args:
            max_bytes: What all entries take at most [bytes], above 0.
            eviction: Which entry leaves first: `lru` the one unused for longest, `lfu` the one used least often.
            ttl_ms: For how long an entry is kept at most, whatever its own times are [ms]; None: for these.
        """
        kind: type[Cache[str, Entry]] = LFUCache if eviction == LFU else LRUCache
        self._make = partial(kind, max_bytes, getsizeof=_size_bytes)
        self._kept = self._make()
        self._ttl_ms = ttl_ms
        self._lock = new_lock(self)

    def get(self, key: str) -> Entry | None:
        """Return an entry, however old."""
        with self._lock:
            return self._kept.get(key)

    def put(self, key: str, entry: Entry, age_ms: int) -> None:
        """Keep an entry of that age [ms], unless it is larger than all the memory."""
        if self._ttl_ms is not None:
            end_ms = age_ms + self._ttl_ms
            entry = entry._replace(fresh_ms=min(entry.fresh_ms, end_ms), kept_ms=min(entry.kept_ms, end_ms))
        if _size_bytes(entry) <= self._kept.maxsize:
            with self._lock:
                self._kept[key] = entry

    def forget(self, key: str) -> None:
        """Remove an entry."""
        with self._lock:
            self._kept.pop(key, None)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def after_fork(self) -> None:
        """Forget everything if another thread was changing it."""
        if self._lock.locked():
            self._kept = self._make()
        self._lock = new_lock(self)


def _size_bytes(entry: Entry) -> int:
    return len(entry.payload) + _ENTRY_BYTES
