"""The listing of a member's chunks, as pages that its replica reads.

The newest chunks come first, since they are the most valuable if the rest is lost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Chunk, ChunkStore

PAGE_BYTES = 64 * 1024

_ENTRY = struct.Struct("!BB?II")


class ListingEntry(NamedTuple):
    """One chunk of a listing, without its bytes."""

    name: bytes
    number: int
    is_wanted: bool
    crc32c: int
    size_bytes: int

    def describes(self, chunk: Chunk | None) -> bool:
        """Whether a chunk has this entry's index, checksum and size."""
        return chunk is not None and (chunk.number, chunk.crc32c, len(chunk.payload)) == (
            self.number,
            self.crc32c,
            self.size_bytes,
        )


def pages(store: ChunkStore) -> Iterator[bytes]:
    """Yield pages that list a store's current chunks. Chunks evicted before their page is built are omitted."""
    page = bytearray()
    for name in store.newest_first():
        chunk = store.peek(name)
        if not chunk:
            continue
        page += _ENTRY.pack(len(name), chunk.number, chunk.is_referenced, chunk.crc32c, len(chunk.payload)) + name
        if len(page) >= PAGE_BYTES - _ENTRY.size - 255:
            yield bytes(page)
            page.clear()
    if page:
        yield bytes(page)


def entries(page: memoryview) -> Iterator[ListingEntry]:
    """Yield the entries of a page.

    Raises:
        FrameError: The page is malformed.
    """
    while page:
        if len(page) < _ENTRY.size:
            raise FrameError(f"a list of chunks ends with {len(page)} bytes that are no entry")
        name_bytes, number, is_wanted, crc32c, size_bytes = _ENTRY.unpack_from(page)
        end = _ENTRY.size + name_bytes
        if len(page) < end:
            raise FrameError(f"a list of chunks ends within a name of {name_bytes} bytes")
        yield ListingEntry(bytes(page[_ENTRY.size : end]), number, is_wanted, crc32c, size_bytes)
        page = page[end:]
