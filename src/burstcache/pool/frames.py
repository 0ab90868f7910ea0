"""Frames between hub and member: a fixed header, a name, a payload.

    magic 2 | kind 1 | number 1 | request 4 | name length 2 | reserved 2 | payload length 4 | CRC32C 4     big-endian

A request's number ties its answer to it; answers come in any order. Lengths are checked before anything is allocated.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from burstcache.core.errors import FrameError
from burstcache.core.pool.slices import MAX_NAME_BYTES, SLICE_BYTES

DROPPED_BETWEEN = b"\n"  # names in the answer to a PUT
MAX_PAYLOAD_BYTES = SLICE_BYTES  # a small slice is one chunk

_HEADER = struct.Struct("!HBBIHxxII")
_MAGIC = 0xBC01  # its low byte is the protocol's version
HEADER_BYTES = _HEADER.size


class Kind(enum.IntEnum):
    """What a frame asks or answers."""

    CHALLENGE = 1  # hub: a nonce
    PROOF = 2  # member: its name, a nonce, its proof
    WELCOME = 3  # hub: its proof
    GET = 4
    PUT = 5
    DELETE = 6
    CANCEL = 7  # the hub no longer needs the answer to a GET; there may be one all the same
    FOUND = 8
    MISSING = 9  # also what a DELETE is answered with
    STORED = 10  # its payload: names of what was dropped for it
    REFUSED = 11  # a PUT larger than the member's memory
    PING = 12  # hub: are you there?
    PONG = 13
    BYE = 14  # member: it returns, its environment by name; what it has not answered by now it has not done
    READER = 32  # a reader that members cannot dial: the name of the member it wants, a nonce, its proof
    COPY = 33  # a second environment, to take over the first one's chunks: name, nonce, proof; to the first: one comes
    LIST = 34  # copy: the next page of what the first one has; number 0: from the beginning
    LISTED = 35  # a page, newest chunks first; an empty one ends the list
    FETCH = 36  # copy: a GET that does not mean that anybody wanted the chunk
    DONE = 37  # copy: it has everything
    COPIED = 38  # hub to the first one: the copy has everything (number 1: return) or is gone (0: go on)
    NEIGHBOUR = 39  # another hub: its id, a nonce, its proof
    DIAL = 40  # to a member: a hub that needs it, as JSON; to its hub, with its name (number 1: wake it for that)
    WRITTEN = 41  # to the hub that has a member copied: it was written to; its name


class Header(NamedTuple):
    """A frame's header."""

    kind: Kind
    request: int
    number: int = 0  # of a chunk in its slice
    name_bytes: int = 0
    payload_bytes: int = 0
    crc32c: int = 0  # of a chunk: `chunks.checksum`

    def pack(self) -> bytes:
        """Return the header as it is sent."""
        return _HEADER.pack(
            _MAGIC, self.kind, self.number, self.request, self.name_bytes, self.payload_bytes, self.crc32c
        )


def parse(data: bytes | bytearray | memoryview, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> Header:
    """Return the header in `HEADER_BYTES` bytes.

    Raises:
        FrameError: This is no header, or what it announces is too long.
    """
    magic, kind, number, request, name_bytes, payload_bytes, crc = _HEADER.unpack(data)
    if magic != _MAGIC:
        raise FrameError(f"a frame begins with {magic:#06x} instead of {_MAGIC:#06x}")
    if name_bytes > MAX_NAME_BYTES:
        raise FrameError(f"a name of {name_bytes:,} bytes; at most {MAX_NAME_BYTES:,} are accepted")
    if payload_bytes > max_payload_bytes:
        raise FrameError(f"a payload of {payload_bytes:,} bytes; at most {max_payload_bytes:,} are accepted")
    try:
        return Header(Kind(kind), request, number, name_bytes, payload_bytes, crc)
    except ValueError as error:
        raise FrameError(f"a frame of kind {kind}; the last kind is {max(Kind)}") from error
