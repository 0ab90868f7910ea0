"""What a member has, as pages that its copy reads: newest first, since those are worth most if the rest is lost."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from burstcache.core.errors import FrameError
from burstcache.core.pool.chunk_store import Chunk, ChunkStore

PAGE_BYTES = 64 * 1024

_ENTRY = struct.Struct("!BB?II")


class Entry(NamedTuple):
    """What a chunk is, without its bytes."""

    name: bytes
    number: int
    is_wanted: bool
    crc32c: int
    size_bytes: int

    def describes(self, chunk: Chunk | None) -> bool:
        """Whether that is this chunk."""
        return chunk is not None and (chunk.number, chunk.crc32c, len(chunk.payload)) == (
            self.number,
            self.crc32c,
            self.size_bytes,
        )


def pages(store: ChunkStore) -> Iterator[bytes]:
    """Yield what is in a store now, page by page; what was dropped when its page is made is left out."""
    page = bytearray()
    for name in store.newest_first():
        chunk = store.peek(name)
        if not chunk:
            continue
        page += _ENTRY.pack(len(name), chunk.number, chunk.is_wanted, chunk.crc32c, len(chunk.payload)) + name
        if len(page) >= PAGE_BYTES - _ENTRY.size - 255:
            yield bytes(page)
            page.clear()
    if page:
        yield bytes(page)


def entries(page: memoryview) -> Iterator[Entry]:
    """Yield the entries of a page.

    Raises:
        FrameError: It is none.
    """
    while page:
        if len(page) < _ENTRY.size:
            raise FrameError(f"a list of chunks ends with {len(page)} bytes that are no entry")
        name_bytes, number, is_wanted, crc32c, size_bytes = _ENTRY.unpack_from(page)
        end = _ENTRY.size + name_bytes
        if len(page) < end:
            raise FrameError(f"a list of chunks ends within a name of {name_bytes} bytes")
        yield Entry(bytes(page[_ENTRY.size : end]), number, is_wanted, crc32c, size_bytes)
        page = page[end:]
