"""A generated S3: a server of objects of any size whose bytes are computed, so that none of them takes room.

moto keeps objects in memory and takes longer for a range than this machine's network, so not five gigabytes of them.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.support.delayed_s3 import serve

ETAG = '"generated"'
_MODIFIED_S = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT
_BLOCK = random.Random(1).randbytes(64 * 1024)


def generated(start: int, end: int) -> Iterator[bytes]:
    """Yield the object's bytes from `start` to before `end`: each block begins with its number."""
    while start < end:
        number, offset = divmod(start, len(_BLOCK))
        block = number.to_bytes(8, "big") + _BLOCK[8:]
        yield block[offset : offset + end - start]
        start += len(_BLOCK) - offset


@dataclass(frozen=True, slots=True)
class GeneratedObject:
    """An object whose bytes are computed as they are sent."""

    size_bytes: int
    etag: str = ETAG
    modified_s: float = _MODIFIED_S

    def send(self, connection: socket.socket, start: int, end: int) -> None:
        """Send the bytes from `start` up to `end`, exclusive."""
        for block in generated(start, end):
            connection.sendall(block)


@dataclass(frozen=True, slots=True)
class GeneratedObjects:
    """An object under any key. Without a size, keys end with a slash and theirs."""

    size_bytes: int | None = None

    def find(self, key: str) -> GeneratedObject:
        """Return an object."""
        return GeneratedObject(int(key.rpartition("/")[2]) if self.size_bytes is None else self.size_bytes)

    def keys(self) -> list[str]:
        """Return no keys: all exist."""
        return []


def serve_generated(port: int, size_bytes: int | None = None) -> None:
    """Serve an object under any key, until the process ends; without a size, keys end with a slash and theirs."""
    serve(GeneratedObjects(size_bytes), port=port, delay_ms=0, mb_per_s=0)
