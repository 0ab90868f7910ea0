"""The slices of an object and the chunks of a slice. Any `data` chunks restore a slice.

Data chunks are parts of the slice itself (a systematic code), so splitting and joining a slice requires no copying.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from burstcache.core.errors import InvalidSettingError
from burstcache.core.slices import Version

SLICE_BYTES = 8 * 1024 * 1024  # small enough to be coded while it is still in the processor's caches
MAX_NAME_BYTES = 255
_CODE_AT_END = re.compile(rb"/(\d{1,2})\+(\d{1,2})$")
_COPIED_BELOW_BYTES = 256 * 1024  # smaller slices are copied, since one answer is faster than requests to many members
_CHUNK_UNIT_BYTES = 64  # a cache line, since aligned chunks are coded fastest
_MAX_DATA = 32  # keeps padding below one chunk of the smallest coded slice


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The code of a slice: any `data` of its `data + parity` chunks restore the slice."""

    data: int
    parity: int

    def __post_init__(self) -> None:
        if not (1 <= self.data <= _MAX_DATA and 0 <= self.parity <= _MAX_DATA):
            raise InvalidSettingError(
                f"{self.data}+{self.parity} chunks: expected 1 to {_MAX_DATA} of data and 0 to {_MAX_DATA} of parity"
            )

    @property
    def chunks(self) -> int:
        """The number of a slice's chunks."""
        return self.data + self.parity


@dataclass(frozen=True)
class CodedSlice:
    """One slice of an object.

    Attributes:
        name: Common to all its chunks, and unique to this version of the object.
        start: Offset in the object [bytes].
        size_bytes: Length, 1 to `SLICE_BYTES` [bytes].
        redundancy: Code of the slice. With one data chunk, the other chunks are copies.
    """

    name: bytes
    start: int
    size_bytes: int
    redundancy: Redundancy

    @cached_property
    def chunk_bytes(self) -> int:
        """The length of a chunk. The last data chunk is sent without its padding [bytes]."""
        if self.redundancy.data == 1:
            return self.size_bytes
        units = math.ceil(self.size_bytes / self.redundancy.data / _CHUNK_UNIT_BYTES)
        return units * _CHUNK_UNIT_BYTES

    def length(self, number: int) -> int:
        """Return the length of a chunk as sent [bytes]."""
        if number >= self.redundancy.data:
            return self.chunk_bytes
        return min(self.chunk_bytes, self.size_bytes - number * self.chunk_bytes)

    def data_chunk(self, body: memoryview, number: int) -> memoryview:
        """Return a data chunk as a view of the slice."""
        return body[number * self.chunk_bytes : (number + 1) * self.chunk_bytes]


@dataclass(frozen=True, slots=True)
class PooledObject:
    """One version of an object in the pool.

    Attributes:
        key_hash: The key's hash.
        version: ETag or version ID. A new version has new chunks, so old chunks are never read again.
        size_bytes: Length of the object [bytes].
        redundancy: Code of its slices; small slices have copies instead of parity.
    """

    key_hash: str
    version: str
    size_bytes: int
    redundancy: Redundancy

    def slices(self) -> Iterator[CodedSlice]:
        """Yield the object's slices, in order."""
        for start in range(0, self.size_bytes, SLICE_BYTES):
            yield self.slice_at(start)

    def slice_at(self, offset: int) -> CodedSlice:
        """Return the slice that contains the byte at `offset`."""
        index = offset // SLICE_BYTES
        start = index * SLICE_BYTES
        size_bytes = min(SLICE_BYTES, self.size_bytes - start)
        redundancy = self.redundancy
        if size_bytes < _COPIED_BELOW_BYTES:
            redundancy = Redundancy(1, self.redundancy.parity)
        name = f"{self.key_hash}/{self.version}/{index}/{redundancy.data}+{redundancy.parity}".encode()
        if len(name) > MAX_NAME_BYTES:
            raise InvalidSettingError(
                f"version {self.version!r} makes a slice name of {len(name)} bytes: expected at most {MAX_NAME_BYTES}"
            )
        return CodedSlice(name, start, size_bytes, redundancy)


def pooled(version: Version, redundancy: Redundancy) -> PooledObject:
    """Return a version as an object of the pool."""
    return PooledObject(version.key_hash, version.etag.strip('"'), version.size_bytes, redundancy)


def redundancy_in(slice_name: bytes) -> Redundancy | None:
    """Return the code in a slice's name, or None if it is not a slice name."""
    match = _CODE_AT_END.search(slice_name)
    return Redundancy(int(match[1]), int(match[2])) if match else None


def extents(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split a byte range of an object at slice boundaries, and yield start and end of each part [bytes]."""
    while start < end:
        next_slice = (start // SLICE_BYTES + 1) * SLICE_BYTES
        yield start, min(next_slice, end)
        start = next_slice
