"""Windows of a part of a large object, in the order in which a gateway sends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial

from burstcache.core.errors import BurstcacheError, ObjectNotFoundError, PreconditionFailedError
from burstcache.gateway.object_cache import RECALLED_BYTES, Body
from burstcache.gateway.origin import unavailable
from burstcache.serve.buffers import RecycledBuffers, blank
from burstcache.serve.large_objects import Part
from burstcache.serve.parallel_parts import slowest
from burstcache.serve.slices import Slices

_FIRST_BYTES = 1 << 18  # one slice; further windows are twice as long, if the client keeps reading
_MOST_BYTES = 8 << 20  # of one request to S3
_MOST_AHEAD = 3  # windows that are read from S3 while one is sent
_BUDGET_BYTES = 256 << 20  # of windows for all clients of a process. Beyond it, they do not grow
_LOCAL = ("memory", "disk")  # tiers of this machine
_MOST_SPARES = 32  # windows whose memory is used again

Call = Callable[[], str | None]
Window = tuple[Body, str]  # with the tier that had it


class PartWindows:
    """Reads parts of large objects in windows. For one event loop.

    Windows grow while the client reads on, so slow clients take little memory. What this machine has is read first.
    From the first slice that it lacks on, windows come from the shared tiers and S3, several at a time. A part of at
    most 8 MiB takes one request to S3. One of at most 1 MiB is a single window, so that a write during the read cannot
    break it off.
    """

    def __init__(self, slices: Slices, in_thread: Callable[[Call], asyncio.Future[str | None]]) -> None:
        """Create the reader.

        Args:
            slices: The slices of large objects.
            in_thread: Runs a function in a thread.
        """
        self._slices = slices
        self._in_thread = in_thread
        self._budget_bytes = _BUDGET_BYTES
        self._buffers = RecycledBuffers(_MOST_SPARES)

    async def tier(self, part: Part, first: Window) -> str:
        """Return the slowest tier that a part needs, as far as its first window and a look for the others tell."""
        body, tier = first
        if tier not in _LOCAL or part.begin or len(body) == part.end - part.start:
            return tier
        expected = partial(self._slices.expected_tier, part.version, part.start + len(body), part.end)
        rest = expected(asks_disk=False)
        if rest not in _LOCAL and self._slices.has_disk:
            rest = await self._in_thread(expected) or rest
        return slowest((tier, rest))

    async def read(self, part: Part) -> AsyncGenerator[Window, None]:
        """Yield the bytes of a part, each window with the slowest tier that it needed.

        Raises:
            PreconditionFailedError, ObjectNotFoundError: The object was overwritten or deleted.
            S3Error: S3 is unreachable or fails.
        """
        if part.end - part.start <= RECALLED_BYTES:
            window = await self._local(part, part.start, part.end) or await self._whole(part)
            yield window
            self._recycle(window[0])
            return
        position, size_bytes = part.start, _FIRST_BYTES
        while position < part.end:
            end = _end(part, position, size_bytes if self._budget_bytes >= size_bytes else _FIRST_BYTES)
            if (found := await self._local(part, position, end)) is None:
                break
            self._budget_bytes -= len(found[0])
            try:
                yield found
            finally:
                self._budget_bytes += len(found[0])
            self._recycle(found[0])
            position, size_bytes = end, min(2 * size_bytes, RECALLED_BYTES)
        async with aclosing(self._from_source(Part(part.version, position, part.end))) as windows:
            async for window in windows:
                yield window

    async def _local(self, part: Part, start: int, end: int) -> Window | None:
        """Return the bytes from `start` up to `end`, exclusive, if this machine has all of them."""
        if not part.begin and (body := self._slices.recall(part.version, start, end)) is not None:
            return body, "memory"
        if not self._slices.has_disk:
            return None
        into = self._buffers.take(end - start)
        if part.begin:
            read = partial(self._slices.read_stored_into, part.version.key, part.begin, start, into)
        else:
            read = partial(self._slices.read_cached_into, part.version, start, into)
        if (tier := read(waits=False)) is not None:
            await asyncio.sleep(0)  # other connections have their turn
            return into, tier
        return None if (tier := await self._in_thread(read)) is None else (into, tier)

    def _recycle(self, body: Body) -> None:
        """Use the memory of a window again, once it has been sent."""
        if isinstance(body, memoryview):
            self._buffers.recycle(body)

    async def _whole(self, part: Part) -> Window:
        """Return all bytes of a short part, which may lie in two parts of 8 MiB."""
        into, position, reads = blank(part.end - part.start), part.start, []
        while position < part.end:
            end = _end(part, position, _MOST_BYTES)
            piece = into[position - part.start : end - part.start]
            reads.append(asyncio.wrap_future(self._slices.begin(part.version, position, piece)))
            position = end
        with _as_s3_error():
            return into, slowest(await asyncio.gather(*reads))

    async def _from_source(self, part: Part) -> AsyncGenerator[Window, None]:
        windows = deque[tuple[memoryview, asyncio.Future[str]]]()
        position, most_ahead = part.start, 0
        size_bytes = _MOST_BYTES if part.end - part.start <= _MOST_BYTES else RECALLED_BYTES
        try:
            while windows or position < part.end:
                while position < part.end and (
                    not windows or (len(windows) <= most_ahead and self._budget_bytes >= size_bytes)
                ):
                    end = _end(part, position, size_bytes if self._budget_bytes >= size_bytes else _FIRST_BYTES)
                    into = blank(end - position)
                    arrived = asyncio.wrap_future(self._slices.begin(part.version, position, into))
                    windows.append((into, arrived))
                    self._budget_bytes -= len(into)
                    position, size_bytes = end, min(2 * size_bytes, _MOST_BYTES)
                into, arrived = windows[0]
                with _as_s3_error():
                    tier = await arrived
                yield into, tier
                windows.popleft()
                self._budget_bytes += len(into)
                most_ahead = _MOST_AHEAD if size_bytes == _MOST_BYTES else 0
        finally:
            for into, arrived in windows:
                self._budget_bytes += len(into)
                arrived.cancel()


@contextmanager
def _as_s3_error() -> Iterator[None]:
    """Raise S3Error for a read that S3 does not answer."""
    try:
        yield
    except (PreconditionFailedError, ObjectNotFoundError):
        raise
    except BurstcacheError as error:
        raise unavailable(error) from error


def _end(part: Part, position: int, size_bytes: int) -> int:
    """Return the end of the window at a position: windows are aligned to their size."""
    return min(part.end, position - position % size_bytes + size_bytes)
