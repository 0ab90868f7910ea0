"""Memory layer: results in this process, bounded in bytes."""

from __future__ import annotations

from functools import partial

from cachetools import Cache, LFUCache, LRUCache

from burstcache.forks import new_lock
from burstcache.results.entries import ResultEntry

LRU, LFU = "lru", "lfu"
EVICTIONS = (LRU, LFU)
MAX_BYTES = 64 << 20
_ENTRY_BYTES = 600  # overhead of an entry, its key and its dictionary slots; 484 to 505 measured


class ResultMemory:
    """A thread-safe LRU or LFU cache of entries."""

    name = "memory"

    def __init__(self, max_bytes: int = MAX_BYTES, *, eviction: str = LRU, ttl_ms: int | None = None) -> None:
        """Start with an empty cache.

        Args:
            max_bytes: Maximum total size of all entries [bytes], above 0.
            eviction: `lru` evicts the least recently used entry, `lfu` the least frequently used one.
            ttl_ms: Upper bound on the entries' own lifetimes [ms]. None: no bound.
        """
        kind: type[Cache[str, ResultEntry]] = LFUCache if eviction == LFU else LRUCache
        self._make = partial(kind, max_bytes, getsizeof=_size_bytes)
        self._entries = self._make()
        self._ttl_ms = ttl_ms
        self._lock = new_lock(self)

    def get(self, key: str) -> ResultEntry | None:
        """Return an entry, expired or not."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: str, entry: ResultEntry, age_ms: int) -> None:
        """Store an entry of this age [ms], unless it alone exceeds `max_bytes`."""
        if self._ttl_ms is not None:
            end_ms = age_ms + self._ttl_ms
            entry = entry._replace(fresh_ms=min(entry.fresh_ms, end_ms), kept_ms=min(entry.kept_ms, end_ms))
        if _size_bytes(entry) <= self._entries.maxsize:
            with self._lock:
                self._entries[key] = entry

    def forget(self, key: str) -> None:
        """Remove an entry."""
        with self._lock:
            self._entries.pop(key, None)

    def close(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()

    def after_fork(self) -> None:
        """Replace the lock, and drop all entries if another thread was modifying them during the fork."""
        if self._lock.locked():
            self._entries = self._make()
        self._lock = new_lock(self)


def _size_bytes(entry: ResultEntry) -> int:
    return len(entry.payload) + _ENTRY_BYTES
