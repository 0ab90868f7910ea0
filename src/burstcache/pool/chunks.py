"""A slice's chunks of parity, its lost chunks, and what is sure about one that arrives."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.slices import Slice
from burstcache.pool.isa_l import crc32c, reed_solomon, room


def encode(slice_: Slice, body: memoryview, numbers: Collection[int]) -> dict[int, Buffer]:
    """Return chunks of parity.

    Args:
        slice_: Which one.
        body: The whole slice.
        numbers: Which chunks.
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


def rebuild(slice_: Slice, body: memoryview, data: Collection[int], parities: Mapping[int, Buffer]) -> None:
    """Compute what a slice lacks.

    Args:
        slice_: Which one.
        body: The slice; what lies at the place of lost chunks is overwritten.
        data: Numbers of the chunks of data that are in `body`.
        parities: Chunks of parity, at least as many as chunks of data are lost.
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
    """Return the CRC32C of a chunk: of its name and number, too, so that another chunk is a wrong one."""
    return crc32c(payload, crc32c(name + bytes([number])))


def _padded(slice_: Slice, chunk: Buffer) -> Buffer:
    if len(chunk) == slice_.chunk_bytes:
        return chunk
    return bytes(chunk).ljust(slice_.chunk_bytes, b"\0")


def _room(slice_: Slice, body: memoryview, number: int) -> Buffer:
    chunk = slice_.data_chunk(body, number)
    return chunk if len(chunk) == slice_.chunk_bytes else room(slice_.chunk_bytes)
