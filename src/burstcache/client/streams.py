"""An object as a file: read in order with slices read ahead, or by ranges where a reader seeks."""

from __future__ import annotations

import io
import operator
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from burstcache.client.objects import Object
from burstcache.client.slices import AT_ONCE, Begin, blank, read_parts
from burstcache.core.pool.slices import SLICE_BYTES, extents

SOUGHT_BYTES = 256 * 1024  # what a reader that has sought gets at a time, until it goes on in order
_PEEKED_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes of an object from `start`. They are there when `read` is done; its result: whether the pool had them."""

    start: int
    body: memoryview
    read: Future[bool]

    @property
    def end(self) -> int:
        return self.start + len(self.body)


class ObjectFile(io.BufferedIOBase):
    """One version of an object, open for reading.

    Whatever the object's length, it holds four slices of 8 MiB at most. Threads must not share it. If the object is
    overwritten meanwhile, a read fails or goes on with the version that was opened; it never mixes two.

    `head` is the object without its body.
    """

    head: Object
    client: Any = None

    def __init__(self, begin: Begin, start: int, end: int) -> None:
        """Begin at the start of a part of an object; nothing is read yet.

        Args:
            begin: Begins to read what lies in one slice: from where in the object, and into what.
            start: Where the part begins in the object [bytes].
            end: Where it ends [bytes].
        """
        self._begin = begin
        self._start, self._end = start, end
        self._position = self._in_order_at = start
        self._parts: deque[_Part] = deque()
        self._most_parts = 1  # grows while a reader goes on in order
        self._is_pooled = True

    @classmethod
    def of(cls, body: bytes) -> ObjectFile:
        """Return a file of what has been read already."""
        done: Future[bool] = Future()
        done.set_result(False)

        def begin(start: int, into: memoryview) -> Future[bool]:
            into[:] = body[start : start + len(into)]
            return done

        file = cls(begin, 0, len(body))
        file._parts.append(_Part(0, memoryview(body), done))
        return file

    def again(self) -> ObjectFile:
        """Return a file of the same version and part, at its start, that shares nothing that is under way."""
        file = ObjectFile(self._begin, self._start, self._end)
        file.head, file.client, file._is_pooled = self.head, self.client, self._is_pooled
        return file

    @property
    def is_pooled(self) -> bool:
        """Whether all that was read until now came from the pool."""
        return self._is_pooled

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
        """Read that many bytes, fewer only at the end; all that is left without a number; errors as `readinto`."""
        self._check_open()
        size = None if size is None else operator.index(size)
        left = max(0, self._end - self._position)
        body = io.BytesIO(bytes(left if size is None or size < 0 else min(size, left)))
        with body.getbuffer() as into:
            self.readinto(into)
        return body.getvalue()

    def read1(self, size: int = -1) -> bytes:
        """Read at most that many bytes, without waiting for a second slice; errors as `readinto`."""
        part = self._next()
        data = bytes(part if size < 0 else part[:size])
        self._advance(len(data))
        return data

    def peek(self, size: int = 0) -> bytes:
        """Return bytes that come next without going on; none at the end. Lines are read by it."""
        return bytes(self._next()[:_PEEKED_BYTES])

    def readinto(self, buffer: Any) -> int:
        """Read as much as there is room for, less only at the end, and return how much.

        After an error the file is where it was, and what failed is asked for again.

        Raises:
            PreconditionFailedError: The object is another version by now.
            ObjectNotFoundError: It was deleted.
            OriginUnavailableError: S3 cannot be reached or fails.
        """
        self._check_open()
        into = memoryview(buffer).cast("B")[: max(0, self._end - self._position)]
        filled = 0
        try:
            while filled < len(into):
                count = self._read_next(into[filled:])
                filled += count
                self._advance(count)
        except BaseException:
            self._advance(-filled)
            raise
        return filled

    def parts(self) -> Iterator[memoryview]:
        """Yield what is left in order, slice by slice, without copying; errors as `readinto`."""
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
        """Read what comes next without going on, and return how much that is."""
        if count := self._whole_slices(len(into)):
            self._drop_parts()
            self._is_pooled &= read_parts(self._begin, self._position, into[:count])
            return count
        part = self._next()[: len(into)]
        into[: len(part)] = part
        return len(part)

    def _advance(self, count: int) -> None:
        self._position += count
        self._in_order_at = self._position

    def _whole_slices(self, wanted: int) -> int:
        """Return how many bytes of what comes next are whole slices of which none is here, in several of them."""
        if self._parts and self._parts[0].start <= self._position < self._parts[-1].end:
            return 0
        if self._position % SLICE_BYTES or wanted < 2 * SLICE_BYTES:
            return 0
        return wanted - wanted % SLICE_BYTES

    def _next(self) -> memoryview:
        """Return the bytes from the position to the end of a part, having waited for them; none at the end."""
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
            self._append(self._position, self._end if is_in_order else self._position + SOUGHT_BYTES)
        while len(self._parts) < self._most_parts and self._parts[-1].end < self._end:
            self._append(self._parts[-1].end, self._end)
        part = self._parts[0]
        try:
            self._is_pooled &= part.read.result()
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
