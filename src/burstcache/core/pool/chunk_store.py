"""Chunks in a member's memory, bounded by bytes, the least wanted dropped first (CLOCK)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview

ENTRY_BYTES = 512  # what a chunk takes apart from its payload: name, object, two places in tables
_CHUNKS_PERCENT = 85  # of a member's memory; the interpreter, and chunks on their way, take the rest


def member_bytes(memory_mb: int) -> int:
    """Return what a member of that memory may store [bytes]."""
    return memory_mb * 1024**2 * _CHUNKS_PERCENT // 100


@dataclass(slots=True)
class Chunk:
    """One chunk as it was written: nobody but its reader looks into it."""

    number: int
    crc32c: int
    payload: Buffer
    is_wanted: bool = False  # since the hand of the clock last passed


class ChunkStore:
    """Chunks by the name of their slice; a member has one chunk of a slice.

    Source:
        Corbató, "A paging experiment with the Multics system", 1968: CLOCK.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.stored_bytes = 0
        self._ring: OrderedDict[bytes, Chunk] = OrderedDict()  # the hand points at its first

    def __len__(self) -> int:
        return len(self._ring)

    def fits(self, payload_bytes: int) -> bool:
        """Whether a chunk of that length can be stored at all."""
        return payload_bytes + ENTRY_BYTES <= self.capacity_bytes

    def get(self, name: bytes) -> Chunk | None:
        """Return a chunk, and remember that it was wanted."""
        chunk = self._ring.get(name)
        if chunk:
            chunk.is_wanted = True
        return chunk

    def peek(self, name: bytes) -> Chunk | None:
        """Return a chunk without remembering that."""
        return self._ring.get(name)

    def put(self, name: bytes, chunk: Chunk) -> list[bytes]:
        """Store a chunk that fits, and return the names of those that were dropped for it."""
        self.delete(name)
        self.stored_bytes += len(chunk.payload) + ENTRY_BYTES
        dropped = []
        while self.stored_bytes > self.capacity_bytes:
            dropped.append(self._drop_one())
        self._ring[name] = chunk
        return dropped

    def delete(self, name: bytes) -> None:
        """Forget a chunk, if it is there."""
        if chunk := self._ring.pop(name, None):
            self.stored_bytes -= len(chunk.payload) + ENTRY_BYTES

    def newest_first(self) -> list[bytes]:
        """Return all names, those last that are dropped first."""
        names = list(reversed(self._ring))
        return sorted(names, key=lambda name: not self._ring[name].is_wanted)

    def put_oldest(self, name: bytes, chunk: Chunk) -> bool:
        """Store a chunk as the next to be dropped, and return whether that was possible without dropping another."""
        size_bytes = len(chunk.payload) + ENTRY_BYTES
        if name in self._ring or self.stored_bytes + size_bytes > self.capacity_bytes:
            return False
        self.stored_bytes += size_bytes
        self._ring[name] = chunk
        self._ring.move_to_end(name, last=False)
        return True

    def renew(self, name: bytes, is_wanted: bool) -> None:
        """Make a chunk, if it is there, the last to be dropped of those that are wanted, or of those that are not."""
        if chunk := self._ring.get(name):
            chunk.is_wanted = is_wanted
            self._ring.move_to_end(name)

    def _drop_one(self) -> bytes:
        while True:
            name, chunk = next(iter(self._ring.items()))
            if not chunk.is_wanted:
                self.delete(name)
                return name
            chunk.is_wanted = False
            self._ring.move_to_end(name)
