"""Memory of slices: the parts of large objects that a reader keeps in its own process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burstcache.core.slices import SLICE_BYTES, Slice
from burstcache.serve.buffers import RecycledCopies
from burstcache.serve.scan_resistant import ScanResistantCache

LEAST_MEMORY_BYTES = 32 * SLICE_BYTES  # a smaller memory keeps no slices: its probation has room for too few
_OVERHEAD_BYTES = 512  # Python's, measured: the slot, two keys, and this class


@dataclass(slots=True)
class CachedSlice:
    """A slice, and the offset up to which a reader has read it in order."""

    body: bytes | memoryview
    read_to: int = 0


class SliceMemory:
    """Slices by name, in a cache that they share with small objects. Threads may share it."""

    def __init__(self, cache: ScanResistantCache[str, Any]) -> None:
        """Use a cache, of which this is the only memory of slices."""
        self._cache = cache
        self._copies = RecycledCopies()
        cache.on_evict = self._recycle

    def get(self, slice_: Slice, start: int, end: int) -> bytes | memoryview | None:
        """Return the whole body of a slice of which a reader wants a part, or None.

        Reads of adjacent parts count as one: a scan in small steps makes no slice hot.

        Args:
            slice_: The slice.
            start: Start of the part in the object [bytes].
            end: End of the part in the object, exclusive [bytes].
        """
        if (cached := self.find(slice_)) is None:
            return None
        self.note_read(slice_, cached, start, end)
        return cached.body

    def find(self, slice_: Slice) -> CachedSlice | None:
        """Return a slice, or None. It counts as read only after `note_read`."""
        cached = self._cache.get(slice_.name, is_counted=False)
        return cached if isinstance(cached, CachedSlice) else None

    def note_read(self, slice_: Slice, cached: CachedSlice, start: int, end: int) -> None:
        """Note a read of a part, as for `get`, of a slice that `find` has returned."""
        if start < cached.read_to:
            self._cache.get(slice_.name)
        cached.read_to = end

    def copy(self, body: memoryview) -> memoryview:
        """Return a copy of a slice's bytes, for `put`. Evicted copies leave it their memory."""
        return self._copies.copy(body)

    def put(self, slice_: Slice, body: bytes | memoryview, read_to: int) -> None:
        """Store a slice, which a reader has read up to an offset in the object [bytes]."""
        self._cache.put(slice_.name, CachedSlice(body, read_to), len(body) + _OVERHEAD_BYTES)

    def _recycle(self, evicted: object) -> None:
        if isinstance(evicted, CachedSlice):
            self._copies.recycle(evicted.body)
