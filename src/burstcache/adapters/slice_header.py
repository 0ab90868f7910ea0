"""The header of a slice file: names its slice and verifies each block, so that a part can be read by itself.

magic, version, length of the body, name; CRC-32 of each 64 KiB of the body; CRC-32 of the header before it
"""

from __future__ import annotations

import errno
import io
import os
import struct
import threading
from collections.abc import Callable, Iterable, Sequence

try:
    from isal.isal_zlib import crc32 as crc32  # 15 times faster than zlib's
except ImportError:
    from zlib import crc32 as crc32

VERSION = 1  # of the header and of the directory
MAX_BODY_BYTES = (8 << 20) + (64 << 10)  # an object of 8 MiB with its headers
BLOCK_BYTES = 64 << 10
AT_ONCE_BYTES = 2 * BLOCK_BYTES  # of a body that is read into new memory without a wait

_MAGIC = b"BURSTSLC"
_FIELDS = struct.Struct("<8sII16s")  # magic, version, length of the body, name
_CRC_BYTES = 4
_CUT_SHORT = "the file is cut short"
_FIRST_BYTES = 4096  # that are read at first: the longest header has 552, and an entry's headers rarely more than 1,000


class _Margins(threading.local):
    """A thread's margins: memory for the bytes of a block outside of the wanted part. New memory takes longer."""

    def __init__(self) -> None:
        self.before, self.after = memoryview(bytearray(BLOCK_BYTES)), memoryview(bytearray(BLOCK_BYTES))


_MARGINS = _Margins()


class DamagedSliceError(Exception):
    """A file is not the slice of its name, or not all of it."""


def encode_header(name: str, body: memoryview) -> bytes:
    """Return the header of a body."""
    fields = _FIELDS.pack(_MAGIC, VERSION, len(body), bytes.fromhex(name))
    crcs = [crc32(body[start : start + BLOCK_BYTES]) for start in range(0, len(body), BLOCK_BYTES)]
    header = fields + struct.pack(f"<{len(crcs)}I", *crcs)
    return header + crc32(header).to_bytes(_CRC_BYTES, "little")


def header_bytes(body_bytes: int) -> int:
    """Return the length of a header."""
    return _FIELDS.size + _CRC_BYTES * (-(-body_bytes // BLOCK_BYTES) + 1)


def read_body(file: int, file_bytes: int, name: str, flags: int = 0) -> bytes:
    """Return the verified body of an open file.

    Raises:
        DamagedSliceError, BlockingIOError: As for `read_halves`, like the arguments.
    """
    return read_halves(file, file_bytes, name, flags, split=_all)[1]


def read_halves(
    file: int, file_bytes: int, name: str, flags: int = 0, *, split: Callable[[bytes], int]
) -> tuple[bytes, bytes]:
    """Return the verified body of an open file in two halves, so that neither has to be copied.

    Args:
        file: Descriptor of the file.
        file_bytes: Size of the file [bytes].
        name: Name of the slice.
        flags: Flags of preadv2(2).
        split: Returns the length of the first half, from the first bytes of the body, which may be all of them.

    Raises:
        DamagedSliceError: The file is not whole.
        BlockingIOError: With RWF_NOWAIT: the page cache lacks a part of the file, or the body has more than 128 KiB.
    """
    length, crcs, begun = _read_header(file, file_bytes, name, flags)
    if flags and length > AT_ONCE_BYTES:
        raise _cut_short(flags)
    middle = min(split(begun), length)
    if len(begun) == length:
        halves = begun[:middle], begun[middle:]
    else:
        first = begun[:middle] if len(begun) >= middle else _read(file, middle, header_bytes(length), flags)
        halves = first, _read(file, length - middle, header_bytes(length) + middle, flags)
    _verify(halves, 0, length, crcs)
    return halves


def _all(_: bytes) -> int:
    return 0


def read_begin(file: int, file_bytes: int, name: str, flags: int = 0, *, split: Callable[[bytes], int]) -> bytes | None:
    """Return the verified first half of the body of an open file, as `read_halves` does. None: it is too long."""
    _, _, begun = _read_header(file, file_bytes, name, flags)
    if not 0 < (middle := split(begun)) <= len(begun):
        return None
    into = memoryview(bytearray(middle))
    return bytes(into) if read_part(file, file_bytes, name, flags, start=0, into=into) else None


def read_part(
    file: int, file_bytes: int, name: str, flags: int = 0, *, start: int, into: memoryview, prefix: bytes = b""
) -> bool:
    """Fill `into` from `start` of the body of an open file, and verify the blocks that it touches.

    Args:
        file: Descriptor of the file.
        file_bytes: Size of the file [bytes].
        name: Name of the slice.
        flags: Flags of preadv2(2).
        start: Start of the part in the body [bytes].
        into: Destination, of the part's length.
        prefix: The bytes with which the body has to begin, of `read_begin`.

    Returns:
        False if the body ends before the part, or begins with other bytes.

    Raises:
        DamagedSliceError: The header or one of the blocks is damaged.
        BlockingIOError: With RWF_NOWAIT: the page cache lacks a part of the file.
    """
    length, crcs, begun = _read_header(file, file_bytes, name, flags)
    stop = start + len(into)
    if not (0 <= start <= stop <= length and begun.startswith(prefix)):
        return False
    begin = start - start % BLOCK_BYTES
    end = min(stop + -stop % BLOCK_BYTES, length)
    pieces = _MARGINS.before[: start - begin], into, _MARGINS.after[: end - stop]
    if os.preadv(file, pieces, header_bytes(length) + begin, flags) != end - begin:
        raise _cut_short(flags)
    _verify(pieces, begin, end, crcs)
    return True


def _read(file: int, size_bytes: int, offset: int, flags: int) -> bytes:
    """Return the bytes at an offset: fewer at the end of the file."""
    if not flags:
        return os.pread(file, size_bytes, offset)
    read = io.BytesIO(bytes(size_bytes))  # whose memory becomes `bytes` without a copy
    with read.getbuffer() as into:
        if os.preadv(file, (into,), offset, flags) != size_bytes:
            raise _cut_short(flags)
    return read.getvalue()


def _cut_short(flags: int) -> Exception:
    """Return the error of a read that returned fewer bytes than the file has, or than the page cache has."""
    return BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) if flags else DamagedSliceError(_CUT_SHORT)


def _read_header(file: int, file_bytes: int, name: str, flags: int) -> tuple[int, Sequence[int], bytes]:
    """Return the body's length, the CRCs of its blocks, and the body's first bytes."""
    read = _read(file, min(_FIRST_BYTES, file_bytes), 0, flags)
    if len(read) < _FIELDS.size:
        raise DamagedSliceError("the header is cut short")
    magic, version, length, named = _FIELDS.unpack_from(read)
    size = header_bytes(length)
    if (magic, version, named) != (_MAGIC, VERSION, bytes.fromhex(name)) or length > MAX_BODY_BYTES:
        raise DamagedSliceError("the header is another's")
    if file_bytes != size + length or len(read) < size:
        raise DamagedSliceError(_CUT_SHORT)
    crc_at = size - _CRC_BYTES
    if crc32(memoryview(read)[:crc_at]) != int.from_bytes(read[crc_at:size], "little"):
        raise DamagedSliceError("the header is damaged")
    return length, struct.unpack_from(f"<{(crc_at - _FIELDS.size) // _CRC_BYTES}I", read, _FIELDS.size), read[size:]


def _verify(pieces: Iterable[bytes | memoryview], begin: int, end: int, crcs: Sequence[int]) -> None:
    """Compare the CRCs of consecutive pieces, which begin and end with a block."""
    at, crc = begin, 0
    for piece in pieces:
        view, first, size = memoryview(piece), 0, len(piece)
        while first < size:
            last = min(first + BLOCK_BYTES - at % BLOCK_BYTES, size)
            crc = crc32(view[first:last], crc)
            at += last - first
            first = last
            if at % BLOCK_BYTES == 0 or at == end:
                if crc != crcs[(at - 1) // BLOCK_BYTES]:
                    raise DamagedSliceError("a block is damaged")
                crc = 0
    if at != end:
        raise DamagedSliceError(_CUT_SHORT)
