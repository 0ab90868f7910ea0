"""Scan-resistant cache: a cache bounded in bytes whose hot entries survive one pass over any amount of cold data.

Source:
    S3-FIFO: Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_PROBATION_SHARE = 0.1  # of the bytes, as in the paper
_MOST_READS = 3  # that count, as in the paper: hot entries of yesterday leave soon


@dataclass(slots=True)
class _Slot(Generic[V]):
    value: V
    size_bytes: int
    reads: int = 0  # since the entry entered its queue


class ScanResistantCache(Generic[K, V]):
    """Values by key, bounded in bytes. Threads may share it.

    A new entry is on probation: it leaves first, unless it is read again before that. Evicted keys are remembered for
    a while, and a value that is put again in that time skips the probation.

    Attributes:
        max_bytes: Bound of all values together [bytes].
        on_evict: Called with each evicted value. It has to be quick, and must not use the cache.
    """

    def __init__(self, max_bytes: int) -> None:
        """Begin without entries. See the attributes for the argument."""
        self.max_bytes = max_bytes
        self.on_evict: Callable[[V], object] = _ignore
        self._probation: OrderedDict[K, _Slot[V]] = OrderedDict()
        self._main: OrderedDict[K, _Slot[V]] = OrderedDict()
        self._evicted: OrderedDict[K, int] = OrderedDict()  # sizes of evicted values [bytes]
        self._probation_bytes = self._main_bytes = self._evicted_bytes = 0
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Size of all values together [bytes]."""
        return self._probation_bytes + self._main_bytes

    def get(self, key: K, *, is_counted: bool = True) -> V | None:
        """Return a value, or None. A read that only continues an earlier one should not be counted."""
        if (slot := self._slot(key)) is None:
            with self._lock:  # a slot that moves is in no queue for a moment
                slot = self._slot(key)
            if slot is None:
                return None
        if is_counted and slot.reads < _MOST_READS:
            slot.reads += 1
        return slot.value

    def put(self, key: K, value: V, size_bytes: int) -> bool:
        """Store a value of a size above 0. Return False if it is larger than the cache."""
        if size_bytes > self.max_bytes:
            return False
        with self._lock:
            reads = self._take(key)
            was_evicted = self._evicted.pop(key, 0)
            self._evicted_bytes -= was_evicted
            if was_evicted or reads:
                self._main[key] = _Slot(value, size_bytes, max(reads - 1, 0))
                self._main_bytes += size_bytes
            else:
                self._probation[key] = _Slot(value, size_bytes)
                self._probation_bytes += size_bytes
            self._evict(key)
        return True

    def pop(self, key: K) -> None:
        """Remove a value."""
        with self._lock:
            self._take(key)

    def remove(self, is_removed: Callable[[V], bool]) -> None:
        """Remove all values for which the predicate is True."""
        with self._lock:
            for queue in (self._probation, self._main):
                for key in [key for key, slot in queue.items() if is_removed(slot.value)]:
                    self._take(key)

    def _slot(self, key: K) -> _Slot[V] | None:
        """Return an entry's slot. Each of the two lookups is atomic."""
        return self._main.get(key) or self._probation.get(key)

    def _take(self, key: K) -> int:
        """Remove an entry, and return its counted reads."""
        if (slot := self._main.pop(key, None)) is not None:
            self._main_bytes -= slot.size_bytes
        elif (slot := self._probation.pop(key, None)) is not None:
            self._probation_bytes -= slot.size_bytes
        return 0 if slot is None else slot.reads

    def _evict(self, newest: K) -> None:
        """Remove entries until the bound holds, but not the newest one."""
        while self.size_bytes > self.max_bytes:
            others = len(self._main) - (newest in self._main), len(self._probation) - (newest in self._probation)
            is_probation_long = self._probation_bytes > _PROBATION_SHARE * self.max_bytes
            if others[1] and (is_probation_long or not others[0]):
                self._evict_from_probation()
            else:
                self._evict_from_main(newest)

    def _evict_from_probation(self) -> None:
        key, slot = self._probation.popitem(last=False)
        self._probation_bytes -= slot.size_bytes
        if slot.reads:
            self._main[key] = _Slot(slot.value, slot.size_bytes)
            self._main_bytes += slot.size_bytes
            return
        self.on_evict(slot.value)
        self._evicted[key] = slot.size_bytes
        self._evicted_bytes += slot.size_bytes
        while self._evicted_bytes > self.max_bytes:
            self._evicted_bytes -= self._evicted.popitem(last=False)[1]

    def _evict_from_main(self, newest: K) -> None:
        key, slot = self._main.popitem(last=False)
        if slot.reads or key == newest:
            self._main[key] = slot
            slot.reads = max(slot.reads - 1, 0)
        else:
            self._main_bytes -= slot.size_bytes
            self.on_evict(slot.value)


def _ignore(_: object) -> None:
    """Do nothing with an evicted value."""
