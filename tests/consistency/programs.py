"""Programs that read ranges of objects of any size, with slices in memory and on a disk that they share.

Bytes are a function of version and offset, so each answer shows which version it is of, and whether it is of one.
"""

from __future__ import annotations

import hashlib
import io
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest

from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.slice_files import SliceFiles
from burstcache.client.streams import open_object
from burstcache.core.errors import ObjectNotFoundError, PreconditionFailedError
from burstcache.core.keys import key_hash
from burstcache.core.slices import SliceNames
from burstcache.serve.large_objects import LargeObjects
from burstcache.serve.part_source import PartSource
from burstcache.serve.reader import Reader
from burstcache.serve.slice_memory import SliceMemory
from burstcache.serve.slices import Slices
from burstcache.web.ranges import ByteRange
from burstcache.web.request import Request
from consistency.history import Operation, Way
from support.any_range import AtOnce
from support.aws import BUCKET
from support.virtual_time import VirtualClock

SLICE_BYTES = LARGE_ABOVE_BYTES = 128
_POOL_SLICE_BYTES = 8 * SLICE_BYTES
_WORD_BYTES = 16
_DISK_BYTES = 256 << 10
_RESTARTED_SHARE = 0.002  # of reads: a new process on the same disk
_OK, _PARTIAL, _NOT_FOUND, _NOT_SATISFIABLE = 200, 206, 404, 416
WRONG = -1  # the number of bytes that are of no version
_SIZES = {
    "core.slices.SLICE_BYTES": SLICE_BYTES,
    "serve.slices._PART_BYTES": _POOL_SLICE_BYTES,
    "serve.slices.LARGE_BYTES": _POOL_SLICE_BYTES,
    "serve.buffers.in_large_pages": lambda _: None,
    "core.pool.slices.SLICE_BYTES": _POOL_SLICE_BYTES,
    "client.streams.SLICE_BYTES": _POOL_SLICE_BYTES,
    "client.streams.SOUGHT_BYTES": SLICE_BYTES // 4,
    "adapters.slice_files._LEAST_SHARE_BYTES": _DISK_BYTES,
}
IN_SLICES = "slices: "  # a head in memory, which has a bound of its own, decides; the tier is that of the bytes
_NUMBERS: dict[str, int] = {}  # by ETag


@lru_cache(4096)
def body_of(number: int) -> bytes:
    """Return the bytes of a write. A third of all objects are small, the others have one of five larger sizes."""
    words = 1 + number % 7 if number % 3 == 0 else 9 + 16 * (number % 5)
    return b"".join(b"%07d@%07d|" % (number, word * _WORD_BYTES) for word in range(words))


@lru_cache(4096)
def _etag_of(number: int) -> str:
    return f'"{hashlib.md5(body_of(number), usedforsecurity=False).hexdigest()}"'


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Make all sizes of slices small, and read a program's slices in the thread that wants them."""
    for name, value in _SIZES.items():
        patch.setattr(f"burstcache.{name}", value)
    patch.setattr("support.functions.MAX_OBJECT_BYTES", LARGE_ABOVE_BYTES)
    for module in ("slices", "part_source", "shared_slices"):
        # A read that waits for another one's slice waits on the virtual clock.
        patch.setattr(f"burstcache.serve.{module}.ThreadPoolExecutor", AtOnce)


def open_disk(path: Any, clock: VirtualClock) -> SliceFiles:
    """Return the directory of slices that all programs of a machine share."""
    return SliceFiles(path, _DISK_BYTES, clock=clock)


@dataclass(frozen=True, slots=True)
class Seen:
    """The answer to a read that began at a time: the number of the write that it shows, or None for no object."""

    process: str
    way: str
    number: int | None
    etag: str
    tier: str
    began_us: int
    is_known: bool = True

    def operation(self, key: str, ended_us: int, path: Way) -> Operation:
        """Return the read as an operation of a history."""
        return Operation(
            self.process, "read", key, self.number, self.began_us, ended_us, self.is_known, self.tier, path
        )


class Program:
    """A program that is restarted now and then. Threads may share it.

    Attributes:
        reader: The reader of its current process.
    """

    def __init__(
        self,
        name: str,
        open_reader: Callable[[], Reader],
        store: ObjectStore,
        disk: SliceFiles | None,
        clock: VirtualClock,
        draw: random.Random,
    ) -> None:
        self._name, self._open_reader, self._store = name, open_reader, store
        self._disk, self._clock, self._draw = disk, clock, draw
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self.reader = self._open_reader()
        memory = self.reader.local_cache.memory
        slices = Slices(
            PartSource(self._store, None, self.reader.forget, self._clock),
            SliceNames("", BUCKET),
            self._clock,
            memory=SliceMemory(memory.cache) if memory is not None else None,
            disk=self._disk,
        )
        self._process = f"{self._name}.{self._starts}"
        self._large = self.reader.large = LargeObjects(slices, LARGE_ABOVE_BYTES, most_body_bytes=2 * LARGE_ABOVE_BYTES)

    def forget(self, hash_: str) -> None:
        """Forget an object that the program has written."""
        self.reader.forget(hash_)

    def read(self, key: str) -> Seen | None:
        """Read an object in one of many ways. None: it has no byte of the range."""
        if self._draw.random() < _RESTARTED_SHARE:
            self._start()
        way = self._draw.choice(("whole", "range", "range", "range", "head", "file"))
        process, reader, large = self._process, self.reader, self._large
        is_again = False
        while True:
            began_us = self._clock.now_us()
            try:
                found = self._read_file(reader, large, key) if way == "file" else self._read_once(reader, key, way)
            except (PreconditionFailedError, ObjectNotFoundError):  # the object was overwritten while it was read
                continue
            if found is None:
                return None
            number, etag, tier, is_known = found
            if not is_known and not is_again:  # overwritten again and again: the error asks to try again
                is_again = True
                continue
            return Seen(process, way, number, etag, f"{IN_SLICES}{tier}", began_us, is_known)

    def _read_once(self, reader: Reader, key: str, way: str) -> tuple[int | None, str, str, bool] | None:
        range_ = self._range() if way == "range" else None
        request = self._request("HEAD" if way == "head" else "GET", key, range_)
        response = reader.read(request)
        headers = response.headers
        if response.status == _NOT_SATISFIABLE:
            return None
        if response.status not in (_OK, _PARTIAL):
            return None, "", headers.get("x-cache-tier", ""), response.status == _NOT_FOUND
        if way == "head":
            number = _number(headers["etag"])
            is_right = int(headers["content-length"]) == len(body_of(number))
            return number if is_right else WRONG, headers["etag"], headers["x-cache-tier"], True
        number = _number(headers["etag"])
        body = body_of(number)
        start, end = (range_.within(len(body)) or (0, 0)) if range_ is not None else (0, len(body))
        total = f"bytes {start}-{end - 1}/{len(body)}"
        is_right = (
            response.body == body[start:end]
            and headers.get("content-range", total) == total
            and (response.status == _PARTIAL) == (range_ is not None)
        )
        return number if is_right else WRONG, headers["etag"], headers["x-cache-tier"], True

    def _read_file(self, reader: Reader, large: LargeObjects, key: str) -> tuple[int | None, str, str, bool]:
        response, file = open_object(reader, large, self._request("GET", key, None))
        if response.status != _OK:
            return None, "", response.headers.get("x-cache-tier", ""), response.status == _NOT_FOUND
        etag, size_bytes = response.headers["etag"], file.seek(0, io.SEEK_END)
        numbers = set()
        for _ in range(3):
            at = file.seek(self._draw.randrange(size_bytes))
            found = file.read(self._draw.choice((_WORD_BYTES, 3 * SLICE_BYTES, 10 * SLICE_BYTES)))
            number = _number(etag)
            numbers.add(number if found == body_of(number)[at : at + len(found)] and found else WRONG)
        return min(numbers), etag, file.tier, True

    def _range(self) -> ByteRange:
        start = _WORD_BYTES * self._draw.randrange(100)
        kinds = (
            ByteRange(None, self._draw.randrange(2 * _WORD_BYTES, 900)),
            ByteRange(start, start + self._draw.randrange(_WORD_BYTES, 5 * SLICE_BYTES)),
            ByteRange(start, None),
        )
        return self._draw.choice(kinds)

    def _request(self, method: str, key: str, range_: ByteRange | None) -> Request:
        return Request(method, key, key_hash(key), {}, range_, str(uuid.uuid4()), self._clock.now_us())


def note(number: int) -> bytes:
    """Return the bytes of a write that is about to be sent, and remember its ETag."""
    _NUMBERS[_etag_of(number)] = number
    return body_of(number)


def _number(etag: str) -> int:
    return _NUMBERS[etag]
