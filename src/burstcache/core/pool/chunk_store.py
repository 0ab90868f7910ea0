"""The chunk store in a member's memory: bounded in bytes, with CLOCK eviction."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview

ENTRY_BYTES = 512  # overhead of a chunk: name, object, two table entries
_CHUNKS_PERCENT = 85  # share of a member's memory; the interpreter and chunks in transit take the rest


def member_bytes(memory_mb: int) -> int:
    """Return the capacity of a member's chunk store [bytes]."""
    return memory_mb * 1024**2 * _CHUNKS_PERCENT // 100


@dataclass(slots=True)
class Chunk:
    """One chunk as it was written. Only readers decode its payload."""

    number: int
    crc32c: int
    payload: Buffer
    is_referenced: bool = False  # CLOCK's reference bit: whether the chunk was read since the hand last passed


class ChunkStore:
    """A store of chunks by slice name. A member stores one chunk of a slice.

    Source:
        Corbató, "A paging experiment with the Multics system", 1968: CLOCK.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.stored_bytes = 0
        self._ring: OrderedDict[bytes, Chunk] = OrderedDict()  # the hand points at the first entry

    def __len__(self) -> int:
        return len(self._ring)

    def fits(self, payload_bytes: int) -> bool:
        """Return whether a chunk of that length fits in an empty store."""
        return payload_bytes + ENTRY_BYTES <= self.capacity_bytes

    def get(self, name: bytes) -> Chunk | None:
        """Return a chunk, and set its reference bit."""
        chunk = self._ring.get(name)
        if chunk:
            chunk.is_referenced = True
        return chunk

    def peek(self, name: bytes) -> Chunk | None:
        """Return a chunk without setting its reference bit."""
        return self._ring.get(name)

    def put(self, name: bytes, chunk: Chunk) -> list[bytes]:
        """Store a chunk that fits, and return the names of the evicted chunks."""
        self.delete(name)
        self.stored_bytes += len(chunk.payload) + ENTRY_BYTES
        evicted = []
        while self.stored_bytes > self.capacity_bytes:
            evicted.append(self._evict_one())
        self._ring[name] = chunk
        return evicted

    def delete(self, name: bytes) -> None:
        """Delete a chunk if the store has it."""
        if chunk := self._ring.pop(name, None):
            self.stored_bytes -= len(chunk.payload) + ENTRY_BYTES

    def newest_first(self) -> list[bytes]:
        """Return all names in the reverse order of eviction."""
        names = list(reversed(self._ring))
        return sorted(names, key=lambda name: not self._ring[name].is_referenced)

    def put_oldest(self, name: bytes, chunk: Chunk) -> bool:
        """Store a new chunk as the next to be evicted. Return False if there is no room, or the store has the name."""
        size_bytes = len(chunk.payload) + ENTRY_BYTES
        if name in self._ring or self.stored_bytes + size_bytes > self.capacity_bytes:
            return False
        self.stored_bytes += size_bytes
        self._ring[name] = chunk
        self._ring.move_to_end(name, last=False)
        return True

    def touch(self, name: bytes, is_referenced: bool) -> None:
        """Make a chunk the newest and set its reference bit to `is_referenced`, if the store has the chunk."""
        if chunk := self._ring.get(name):
            chunk.is_referenced = is_referenced
            self._ring.move_to_end(name)

    def _evict_one(self) -> bytes:
        while True:
            name, chunk = next(iter(self._ring.items()))
            if not chunk.is_referenced:
                self.delete(name)
                return name
            chunk.is_referenced = False
            self._ring.move_to_end(name)
