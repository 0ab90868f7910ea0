"""The LRU store of a node: object sizes by key."""

from __future__ import annotations

from collections import OrderedDict


class LruStore:
    """Object sizes in one node, with LRU eviction when the memory is full."""

    def __init__(self, capacity_bytes: int | None) -> None:
        self.capacity_bytes = capacity_bytes  # None if unlimited
        self.used_bytes = 0
        self._sizes_bytes: OrderedDict[int, int] = OrderedDict()  # least recently used first

    def __contains__(self, key: int) -> bool:
        return key in self._sizes_bytes

    def use(self, key: int) -> None:
        """Mark a stored object as the most recently used."""
        self._sizes_bytes.move_to_end(key)

    def put(self, key: int, size_bytes: int) -> None:
        """Store an object, and evict other objects if necessary."""
        self.drop(key)
        self._sizes_bytes[key] = size_bytes
        self.used_bytes += size_bytes
        while self.capacity_bytes is not None and self.used_bytes > self.capacity_bytes:
            _, evicted_bytes = self._sizes_bytes.popitem(last=False)
            self.used_bytes -= evicted_bytes

    def clear(self) -> None:
        """Drop all objects."""
        self._sizes_bytes.clear()
        self.used_bytes = 0

    def drop(self, key: int) -> None:
        """Drop an object, if it is stored."""
        self.used_bytes -= self._sizes_bytes.pop(key, 0)
