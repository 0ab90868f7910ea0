"""The copy that a cache function holds, from a load until the next write invalidates the copy.

Orders invalidate the copy and fence loads. The function subscribes to orders before its first read from S3, and
discards a load if an order arrives during it. While the relay is unreachable no orders arrive, so the function holds no
copy. If an order cannot be sent, the writer raises a fence. Readers send the fence with each GET, and a raised fence
makes the function reload its copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from burstcache.adapters.clock import Clock
from burstcache.web.entry import Entry

_RELOAD_S = 0.25  # longest wait of a GET for a reload; if a reload takes longer, the reader is better off with S3
_MAX_SKEW_US = 10_000_000  # maximum clock skew; a fence that is older at the start of the life was raised before it


class HeldCopy:
    """A copy of one object in memory, for one event loop."""

    def __init__(self, clock: Clock) -> None:
        """Start without a copy."""
        self.last: Entry | None = None  # the last loaded copy, revalidated by the next load
        self.is_due = asyncio.Event()  # set when a reload is due
        self._clock = clock
        self._entry: Entry | None = None
        self._drops = 0
        self._dropped_at_s = 0.0
        self._is_connected = True
        self._fence_us = clock.now_us() - _MAX_SKEW_US  # the highest fence seen
        self._is_here = asyncio.Event()

    def drop(self) -> None:
        """Invalidate the copy after a write to its object."""
        if self._entry is not None:  # otherwise a series of writes would extend the readers' wait each time
            self._dropped_at_s = self._clock.monotonic_s()
        self._entry = None
        self._is_here.clear()
        self._drops += 1
        if self._is_connected:
            self.is_due.set()

    def see_fence(self, fence_us: int) -> None:
        """Invalidate the copy if a write has raised the fence, because the order for that write may have been lost."""
        if fence_us > self._fence_us:
            self._fence_us = fence_us
            self.drop()

    def set_connected(self, is_connected: bool) -> None:
        """Invalidate the copy when the relay connection is lost or restored, since orders may be lost."""
        self._is_connected = is_connected
        self.is_due.clear()
        self.drop()

    async def load(self, fetch: Callable[[Entry | None], Awaitable[Entry]]) -> None:
        """Load the object, and keep it unless a write arrives during the load.

        Args:
            fetch: Returns the current object, given the last copy.
        """
        drops = self._drops
        self.last = await fetch(self.last)
        if drops == self._drops and self._is_connected:
            self._entry = self.last
            self._is_here.set()

    async def get(self, *, within_s: float) -> Entry | None:
        """Return the copy, or None if it is missing. Wait briefly for a reload, at most `within_s`."""
        if self._entry is None:
            left_s = min(self._dropped_at_s + _RELOAD_S - self._clock.monotonic_s(), within_s)
            if left_s > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_here.wait(), left_s)
        return self._entry
