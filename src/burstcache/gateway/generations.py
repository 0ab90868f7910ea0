"""Generations of keys in memory that a gateway's processes share: a write through one process invalidates all copies.

A process compares the generation of a key with the one at which it last dropped its copies. A write increments the
generation before S3 gets the request and again after S3's response, so a copy loaded during the write is dropped, too.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable

from cachetools import LRUCache

_SLOTS = 1 << 16  # keys in one slot invalidate each other
_MOST_KEYS = 1 << 16


class Generations:
    """The shared table. Create it before the processes fork.

    Each process increments counters of its own, which needs no lock and survives a killed process. The generation of a
    key is the sum of all processes' counters, so it only grows.
    """

    def __init__(self, processes: int) -> None:
        self._counters = memoryview(mmap.mmap(-1, 8 * (_SLOTS * processes + 1))).cast("Q")
        self._columns = range(0, _SLOTS * processes, _SLOTS)
        self.is_shared = processes > 1

    def current(self, hash_: str) -> int:
        """Return the current generation of the key with this hash."""
        slot = _slot(hash_)
        return self._counters[-1] + sum(self._counters[column + slot] for column in self._columns)

    def increment(self, hash_: str, process: int) -> None:
        """Start a new generation of a key. `process` is the index of the caller's process."""
        self._counters[process * _SLOTS + _slot(hash_)] += 1

    def increment_all(self) -> None:
        """Start a new generation of all keys, since a process has died, perhaps in the middle of a write.

        Only the process that supervises the others may call this.
        """
        self._counters[-1] += 1


class GenerationCheck:
    """One process's view of the shared generations. For one thread, that of the event loop."""

    def __init__(self, generations: Generations, process: int, forget: Callable[[str], None]) -> None:
        """Create the check.

        Args:
            generations: The shared table.
            process: The index of this process.
            forget: Drops this process's copies of a key, given its hash.
        """
        self._generations = generations
        self._process = process
        self._forget = forget
        self._seen: LRUCache[str, int] = LRUCache(_MOST_KEYS)

    def refresh(self, hash_: str) -> None:
        """Drop the copies of a key that any of the processes has written since the last call."""
        if not self._generations.is_shared:  # `invalidate` has dropped the copies
            return
        current = self._generations.current(hash_)
        if current and self._seen.get(hash_) != current:  # 0: nobody has written it
            self._seen[hash_] = current
            self._forget(hash_)

    def invalidate(self, hash_: str) -> None:
        """Drop the copies of a key in all processes."""
        self._generations.increment(hash_, self._process)
        self._seen[hash_] = self._generations.current(hash_)
        self._forget(hash_)


def _slot(hash_: str) -> int:
    return int(hash_[:4], 16)
