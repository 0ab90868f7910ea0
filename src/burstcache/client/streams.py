"""Streams of objects: files that prefetch slices for sequential readers, and read ranges after a seek."""

from __future__ import annotations

import io
import operator
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from burstcache.client.objects import Object
from burstcache.core.pool.slices import SLICE_BYTES, extents
from burstcache.serve.buffers import ResultBuffer, blank
from burstcache.serve.large_objects import LargeObjects, with_tier
from burstcache.serve.parallel_parts import AT_ONCE, Begin, read_parts, slowest
from burstcache.serve.reader import Reader
from burstcache.web.headers import object_size_bytes
from burstcache.web.request import Request
from burstcache.web.response import Response, object_response

SOUGHT_BYTES = 256 * 1024  # size of a read after a seek, until the reader continues sequentially
_PEEKED_BYTES = 8 * 1024
_SENT = (200, 206)


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes of an object from `start`, complete once `read` is done. Its result is the slowest tier that was needed."""

    start: int
    body: memoryview
    read: Future[str]

    @property
    def end(self) -> int:
        return self.start + len(self.body)


class ObjectFile(io.BufferedIOBase):
    """One version of an object, open for reading.

    It buffers at most four slices of 8 MiB, regardless of the object's size. It is not thread-safe. If the object is
    overwritten, a read fails or continues with the opened version, but never mixes two versions.

    `head` is the object without its body.
    """

    head: Object
    client: Any = None

    def __init__(self, begin: Begin, start: int, end: int) -> None:
        """Open a part of an object at its start, without reading it yet.

        Args:
            begin: Starts reading a part of one slice, given its offset in the object and its destination.
            start: Offset of the part in the object [bytes].
            end: End of the part in the object, exclusive [bytes].
        """
        self._begin = begin
        self._start, self._end = start, end
        self._position = self._in_order_at = start
        self._parts: deque[_Part] = deque()
        self._most_parts = 1  # doubles while the reader continues sequentially
        self._tier = "memory"

    @classmethod
    def of(cls, body: bytes, tier: str) -> ObjectFile:
        """Return a file over bytes that a tier has sent."""
        done: Future[str] = Future()
        done.set_result(tier)

        def begin(start: int, into: memoryview) -> Future[str]:
            into[:] = body[start : start + len(into)]
            return done

        file = cls(begin, 0, len(body))
        file._parts.append(_Part(0, memoryview(body), done))
        return file

    def again(self) -> ObjectFile:
        """Return a new file for the same part and version, at its start. It shares no read in flight."""
        file = ObjectFile(self._begin, self._start, self._end)
        file.head, file.client, file._tier = self.head, self.client, self._tier
        return file

    @property
    def tier(self) -> str:
        """The slowest tier that the bytes read so far needed: memory, disk, pool or s3."""
        return self._tier

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position - self._start

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        offset = operator.index(offset)
        bases = {io.SEEK_SET: self._start, io.SEEK_CUR: self._position, io.SEEK_END: self._end}
        if (base := bases.get(whence)) is None:
            raise ValueError(f"whence={whence!r}; accepted: SEEK_SET (0), SEEK_CUR (1), SEEK_END (2)")
        if base + offset < self._start:
            raise ValueError(f"seek to byte {base + offset - self._start}; accepted: 0 or more")
        self._position = base + offset
        return self.tell()

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, or fewer at the end. By default read all remaining bytes. See `readinto` for errors."""
        self._check_open()
        size = None if size is None else operator.index(size)
        left = max(0, self._end - self._position)
        body = ResultBuffer(left if size is None or size < 0 else min(size, left))
        self.readinto(body.into)
        return body.value()

    def read1(self, size: int = -1) -> bytes:
        """Read at most `size` bytes without waiting for a second slice. See `readinto` for errors."""
        part = self._next()
        data = bytes(part if size < 0 else part[:size])
        self._advance(len(data))
        return data

    def peek(self, size: int = 0) -> bytes:
        """Return the next bytes without advancing, or none at the end. `readline` uses it."""
        return bytes(self._next()[:_PEEKED_BYTES])

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or read up to the end, and return the number of bytes read.

        An error leaves the file position unchanged, and the next read retries.

        Raises:
            PreconditionFailedError: The object was overwritten.
            ObjectNotFoundError: The object was deleted.
            OriginUnavailableError: S3 is unreachable or fails.
        """
        self._check_open()
        into = memoryview(buffer).cast("B")[: max(0, self._end - self._position)]
        is_in_order = self._position == self._in_order_at
        filled = 0
        try:
            while filled < len(into):
                count = self._read_next(into[filled:])
                filled += count
                self._position += count
                if is_in_order:  # else only the next read shows whether the reader continues sequentially
                    self._in_order_at = self._position
        except BaseException:
            self._advance(-filled)
            raise
        self._advance(0)
        return filled

    def parts(self) -> Iterator[memoryview]:
        """Yield the remaining bytes slice by slice, without copying. See `readinto` for errors."""
        while part := self._next():
            self._advance(len(part))
            yield part

    def close(self) -> None:
        if not self.closed:
            self._drop_parts()
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _read_next(self, into: memoryview) -> int:
        """Read the next bytes without advancing, and return their number."""
        if count := self._whole_slices(len(into)):
            self._drop_parts()
            self._tier = slowest((self._tier, read_parts(self._begin, self._position, into[:count])))
            return count
        part = self._next(len(into))[: len(into)]
        into[: len(part)] = part
        return len(part)

    def _advance(self, count: int) -> None:
        self._position += count
        self._in_order_at = self._position

    def _whole_slices(self, wanted: int) -> int:
        """Return the size of the next whole slices [bytes], or 0 for fewer than two or if the position is buffered."""
        if self._parts and self._parts[0].start <= self._position < self._parts[-1].end:
            return 0
        if self._position % SLICE_BYTES or wanted < 2 * SLICE_BYTES:
            return 0
        return wanted - wanted % SLICE_BYTES

    def _next(self, wanted_bytes: int = 0) -> memoryview:
        """Wait for the part at the position, and return its remaining bytes, or none at the end."""
        self._check_open()
        if self._position >= self._end:
            return memoryview(b"")
        is_in_order = self._position == self._in_order_at
        while self._parts and not self._parts[0].start <= self._position < self._parts[0].end:
            self._parts.popleft().read.cancel()
            self._most_parts = min(2 * self._most_parts, AT_ONCE)
        if not is_in_order:
            self._most_parts = 1
        if not self._parts:
            sought_end = self._position + max(wanted_bytes, SOUGHT_BYTES)
            self._append(self._position, self._end if is_in_order else sought_end)
        while len(self._parts) < self._most_parts and self._parts[-1].end < self._end:
            self._append(self._parts[-1].end, self._end)
        part = self._parts[0]
        try:
            self._tier = slowest((self._tier, part.read.result()))
        except BaseException:
            self._drop_parts()
            raise
        return part.body[self._position - part.start :]

    def _append(self, start: int, end: int) -> None:
        first, end = next(extents(start, min(end, self._end)))
        body = blank(end - first)
        self._parts.append(_Part(first, body, self._begin(first, body)))

    def _drop_parts(self) -> None:
        while self._parts:
            self._parts.popleft().read.cancel()


def open_object(reader: Reader, large: LargeObjects, request: Request) -> tuple[Response, ObjectFile]:
    """Return the response to a GET, and its body as a file. The body of a large object is not read yet.

    Args:
        reader: Reader of objects of any size.
        large: Its large objects.
        request: The GET.
    """
    response = reader.describe(request)
    if response is None:
        head = reader.respond(replace(request, method="HEAD", headers={}, range=None))
        is_known = head.status in _SENT and head.is_keepable
        if is_known and object_size_bytes(head.headers) > min(large.above_bytes, SLICE_BYTES):
            response = object_response(request, head.headers, b"").served_by(large.slices.tier, is_hit=False)
        else:
            if not is_known and head.headers["x-cache-tier"] != "memory":
                # The store rejects HEAD, or its headers do not suffice to read parts of the object. Or S3 returned an
                # error, and only a GET returns the details.
                request = replace(request, headers={**request.headers, "cache-control": "max-age=0"})
            response = reader.respond(request)
    if large.is_left(request, response):
        return open_part(large, request, response)
    large.count(request, response)
    body = response.body if response.status in _SENT else b""
    return response, ObjectFile.of(body, response.headers["x-cache-tier"])


def open_part(large: LargeObjects, request: Request, response: Response) -> tuple[Response, ObjectFile]:
    """Return a response that lacks its body, and the body as a file over slices.

    The tier in the headers is the expected one, since the body is not read yet. The file knows the actual one.
    """
    part, slices = large.part(request, response), large.slices
    if part.end - part.start <= SLICE_BYTES and (body := slices.recall(part.version, part.start, part.end)) is not None:
        return with_tier(response, "memory", is_hit=True), ObjectFile.of(body, "memory")
    tier = slices.expected_tier(part.version, part.start, part.end)
    file = ObjectFile(partial(slices.begin, part.version), part.start, part.end)
    return with_tier(response, tier, is_hit=tier != slices.tier), file
