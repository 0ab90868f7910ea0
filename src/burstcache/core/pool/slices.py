"""An object as slices, a slice as chunks of which any `data` are enough.

Chunks of data are parts of the slice itself, so nothing is copied to cut a slice up or to put it together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from burstcache.core.errors import InvalidSettingError

SLICE_BYTES = 8 * 1024 * 1024  # a slice is coded while processors still have it in their caches
MAX_NAME_BYTES = 255
_CODE_AT_END = re.compile(rb"/(\d{1,2})\+(\d{1,2})$")
_COPIED_BELOW_BYTES = 256 * 1024  # one answer then takes less time than asking many members
_CHUNK_UNIT_BYTES = 64  # a cache line; chunks that begin at one are coded fastest
_MAX_DATA = 32  # so padding stays below one chunk of the smallest slice that is coded


@dataclass(frozen=True, slots=True)
class Redundancy:
    """How many chunks a slice has: any `data` of `data + parity` are enough."""

    data: int
    parity: int

    def __post_init__(self) -> None:
        if not (1 <= self.data <= _MAX_DATA and 0 <= self.parity <= _MAX_DATA):
            raise InvalidSettingError(
                f"{self.data}+{self.parity} chunks; 1 to {_MAX_DATA} of data and 0 to {_MAX_DATA} of parity are right"
            )

    @property
    def chunks(self) -> int:
        """All chunks of a slice."""
        return self.data + self.parity


@dataclass(frozen=True)
class Slice:
    """One slice of an object.

    Attributes:
        name: The same for all its chunks; no other version of the object has it.
        start: Where it begins in the object [bytes].
        size_bytes: Its length, 1 to `SLICE_BYTES`.
        redundancy: How it is coded; one chunk of data means copies.
    """

    name: bytes
    start: int
    size_bytes: int
    redundancy: Redundancy

    @cached_property
    def chunk_bytes(self) -> int:
        """Length of a chunk; the last of data is sent without its padding."""
        if self.redundancy.data == 1:
            return self.size_bytes
        units = math.ceil(self.size_bytes / self.redundancy.data / _CHUNK_UNIT_BYTES)
        return units * _CHUNK_UNIT_BYTES

    def length(self, number: int) -> int:
        """Return how many bytes of a chunk are sent."""
        if number >= self.redundancy.data:
            return self.chunk_bytes
        return min(self.chunk_bytes, self.size_bytes - number * self.chunk_bytes)

    def data_chunk(self, body: memoryview, number: int) -> memoryview:
        """Return a chunk of data as the part of the slice that it is."""
        return body[number * self.chunk_bytes : (number + 1) * self.chunk_bytes]


@dataclass(frozen=True, slots=True)
class PooledObject:
    """One version of an object in the pool.

    Attributes:
        key_hash: The key's hash.
        version: ETag or version ID: a new version has other chunks, so the old ones are never read again.
        size_bytes: Length of the object.
        redundancy: How its slices are coded; of a small one, each chunk of parity is a copy.
    """

    key_hash: str
    version: str
    size_bytes: int
    redundancy: Redundancy

    def slices(self) -> Iterator[Slice]:
        """Yield all slices, in order."""
        for start in range(0, self.size_bytes, SLICE_BYTES):
            yield self.slice_at(start)

    def slice_at(self, offset: int) -> Slice:
        """Return the slice that has the byte at `offset`."""
        index = offset // SLICE_BYTES
        start = index * SLICE_BYTES
        size_bytes = min(SLICE_BYTES, self.size_bytes - start)
        redundancy = self.redundancy
        if size_bytes < _COPIED_BELOW_BYTES:
            redundancy = Redundancy(1, self.redundancy.parity)
        name = f"{self.key_hash}/{self.version}/{index}/{redundancy.data}+{redundancy.parity}".encode()
        if len(name) > MAX_NAME_BYTES:
            raise InvalidSettingError(f"the version {self.version!r} makes a name of {len(name)} bytes")
        return Slice(name, start, size_bytes, redundancy)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an object.

    Attributes:
        key: The object's key.
        key_hash: The key's hash.
        etag: S3's ETag, with its quotes.
        size_bytes: Length of the object.
    """

    key: str
    key_hash: str
    etag: str
    size_bytes: int

    def pooled(self, redundancy: Redundancy) -> PooledObject:
        """Return the version as the pool has it."""
        return PooledObject(self.key_hash, self.etag.strip('"'), self.size_bytes, redundancy)


def redundancy_in(slice_name: bytes) -> Redundancy | None:
    """Return how the slice of that name is coded; None if this is no slice's name."""
    match = _CODE_AT_END.search(slice_name)
    return Redundancy(int(match[1]), int(match[2])) if match else None


def extents(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a slice that a part of an object has [bytes]."""
    while start < end:
        next_slice = (start // SLICE_BYTES + 1) * SLICE_BYTES
        yield start, min(next_slice, end)
        start = next_slice
