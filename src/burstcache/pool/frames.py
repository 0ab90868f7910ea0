"""Frames between hub and member: a fixed header, a name and a payload.

    magic 2 | kind 1 | number 1 | request 4 | name length 2 | reserved 2 | payload length 4 | CRC32C 4     big-endian

A response carries the id of its request. Responses may arrive in any order. Lengths are checked before memory is
allocated.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from burstcache.core.errors import FrameError
from burstcache.core.pool.slices import MAX_NAME_BYTES, SLICE_BYTES

NAME_SEPARATOR = b"\n"  # between names in the response to a PUT
MAX_PAYLOAD_BYTES = SLICE_BYTES  # a small slice is one chunk

_HEADER = struct.Struct("!HBBIHxxII")
_MAGIC = 0xBC01  # its low byte is the protocol's version
HEADER_BYTES = _HEADER.size


class Kind(enum.IntEnum):
    """The kind of a frame: a request or a response."""

    CHALLENGE = 1  # from the hub: a nonce
    PROOF = 2  # from a member: its name, a nonce, its proof
    WELCOME = 3  # from the hub: its proof
    GET = 4
    PUT = 5
    DELETE = 6
    CANCEL = 7  # the hub no longer needs the response to a GET, which may still arrive
    FOUND = 8
    MISSING = 9  # also the response to a DELETE
    STORED = 10  # the payload lists the names of chunks evicted to make room
    REFUSED = 11  # a PUT larger than the member's memory
    PING = 12  # from the hub
    PONG = 13
    BYE = 14  # from a returning member: its environment's name. Unanswered requests were not processed
    READER = 32  # from a reader that members cannot dial: the requested member's name, a nonce, its proof
    REPLICA = 33  # from a replica, to copy its primary: name, nonce, proof; to the primary: its chunks will be copied
    LIST = 34  # from a replica: a request for a page of the primary's chunks, the first (number 0) or the next
    LISTED = 35  # a page, newest chunks first; an empty page ends the list
    FETCH = 36  # from a replica: a GET that does not count as a use of the chunk
    DONE = 37  # from a replica: all chunks are copied
    REPLICATED = 38  # from the hub to the primary: the replica is complete (number 1: return) or lost (0: continue)
    PEER = 39  # from another hub: its id, a nonce, its proof
    DIAL = 40  # to a member: a hub to dial, as JSON; to a peer, for a member (number 1: start the member if needed)
    WRITTEN = 41  # to the hub that replicates a member: the member's name, after a write to the member


class Header(NamedTuple):
    """The header of a frame."""

    kind: Kind
    request: int
    number: int = 0  # usually the index of a chunk in its slice
    name_bytes: int = 0
    payload_bytes: int = 0
    crc32c: int = 0  # of a chunk: `chunks.checksum`

    def pack(self) -> bytes:
        """Encode the header."""
        return _HEADER.pack(
            _MAGIC, self.kind, self.number, self.request, self.name_bytes, self.payload_bytes, self.crc32c
        )


def parse(data: bytes | bytearray | memoryview, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> Header:
    """Decode a header from `HEADER_BYTES` bytes.

    Raises:
        FrameError: The bytes are not a header, or the announced name or payload is too long.
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
