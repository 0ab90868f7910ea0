"""Chunks of a slice: encoding parity, rebuilding lost chunks, and checksums."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.slices import CodedSlice
from burstcache.pool.isa_l import crc32c, reed_solomon, room


def encode(slice_: CodedSlice, body: memoryview, numbers: Collection[int]) -> dict[int, Buffer]:
    """Return parity chunks by index.

    Args:
        slice_: The slice to encode.
        body: All bytes of the slice.
        numbers: Indexes of the parity chunks to compute.
    """
    code = slice_.redundancy
    if code.data == 1:
        return dict.fromkeys(numbers, body)
    if not numbers:
        return {}
    parities: dict[int, Buffer] = {number: room(slice_.chunk_bytes) for number in numbers}
    blocks = [_padded(slice_, slice_.data_chunk(body, number)) for number in range(code.data)]
    reed_solomon(code.data, code.parity).encode(blocks, parities)
    return parities


def rebuild(slice_: CodedSlice, body: memoryview, data: Collection[int], parities: Mapping[int, Buffer]) -> None:
    """Rebuild the lost data chunks of a slice in place.

    Args:
        slice_: The slice to rebuild.
        body: The slice's memory. Lost chunks are overwritten.
        data: Indexes of the data chunks present in `body`.
        parities: Parity chunks by index, at least one for each lost data chunk.
    """
    code = slice_.redundancy
    lost = set(range(code.data)).difference(data)
    if not lost:
        return
    if code.data == 1:
        body[:] = next(iter(parities.values()))
        return
    blocks = {number: _padded(slice_, slice_.data_chunk(body, number)) for number in data}
    blocks.update(itertools.islice(parities.items(), len(lost)))
    rebuilt = {number: _room(slice_, body, number) for number in lost}
    reed_solomon(code.data, code.parity).rebuild(blocks, rebuilt)
    last = code.data - 1
    if last in lost:
        slice_.data_chunk(body, last)[:] = rebuilt[last][: slice_.length(last)]


def checksum(name: bytes, number: int, payload: Buffer) -> int:
    """Return a chunk's CRC32C, which also covers its name and index, so that swapped chunks are detected."""
    return crc32c(payload, crc32c(name + bytes([number])))


def _padded(slice_: CodedSlice, chunk: Buffer) -> Buffer:
    if len(chunk) == slice_.chunk_bytes:
        return chunk
    return bytes(chunk).ljust(slice_.chunk_bytes, b"\0")


def _room(slice_: CodedSlice, body: memoryview, number: int) -> Buffer:
    chunk = slice_.data_chunk(body, number)
    return chunk if len(chunk) == slice_.chunk_bytes else room(slice_.chunk_bytes)
