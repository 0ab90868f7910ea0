"""Windows of a part of a large object, in the order in which a gateway sends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from burstcache.core.errors import BurstcacheError, ObjectNotFoundError, PreconditionFailedError
from burstcache.gateway.object_cache import RECALLED_BYTES, Body
from burstcache.gateway.origin import unavailable
from burstcache.serve.buffers import blank
from burstcache.serve.large_objects import Part
from burstcache.serve.slices import Slices

_FIRST_BYTES = 1 << 18  # one slice; further windows are twice as long, if the client keeps reading
_MOST_BYTES = 8 << 20  # of one request to S3
_MOST_AHEAD = 3  # windows that are read from S3 while one is sent
_BUDGET_BYTES = 256 << 20  # of windows from S3, for all clients of a process

Read = Callable[[Callable[[], bytes | None]], "asyncio.Future[bytes | None]"]


class PartWindows:
    """Reads parts of large objects in windows. For one event loop.

    Windows grow while the client reads on, so slow clients take little memory. What this machine has is read first.
    From the first slice that it lacks on, windows come from the shared tiers and S3, several at a time. A part of at
    most 8 MiB takes one request to S3. One of at most 1 MiB is a single window, so that a write during the read cannot
    break it off.
    """

    def __init__(self, slices: Slices, in_thread: Read) -> None:
        """Create the reader.

        Args:
            slices: The slices of large objects.
            in_thread: Runs a function in a thread.
        """
        self._slices = slices
        self._in_thread = in_thread
        self._budget_bytes = _BUDGET_BYTES

    async def read(self, part: Part) -> AsyncGenerator[Body, None]:
        """Yield the bytes of a part.

        Raises:
            PreconditionFailedError, ObjectNotFoundError: The object was overwritten or deleted.
            S3Error: S3 is unreachable or fails.
        """
        position, length_bytes = part.start, part.end - part.start
        size_bytes = _FIRST_BYTES if length_bytes > RECALLED_BYTES else _MOST_BYTES  # not split
        while position < part.end:
            end = _end(part, position, size_bytes)
            body: Body | None = self._slices.recall(part.version, position, end)
            if body is None:
                body = await self._in_thread(partial(self._slices.read_cached, part.version, position, end))
            if body is None:
                break
            yield body
            position, size_bytes = end, min(2 * size_bytes, RECALLED_BYTES)
        async with aclosing(self._from_source(Part(part.version, position, part.end))) as windows:
            async for body in windows:
                yield body

    async def _from_source(self, part: Part) -> AsyncGenerator[Body, None]:
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
                try:
                    await arrived
                except (PreconditionFailedError, ObjectNotFoundError):
                    raise
                except BurstcacheError as error:
                    raise unavailable(error) from error
                yield into
                windows.popleft()
                self._budget_bytes += len(into)
                most_ahead = _MOST_AHEAD if size_bytes == _MOST_BYTES else 0
        finally:
            for into, arrived in windows:
                self._budget_bytes += len(into)
                arrived.cancel()


def _end(part: Part, position: int, size_bytes: int) -> int:
    """Return the end of the window at a position: windows are aligned to their size."""
    return min(part.end, position - position % size_bytes + size_bytes)
