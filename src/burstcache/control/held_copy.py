"""The copy of a cache function: it is here from a load until the next write, which takes it away at once.

The fence of a load is that orders are heard: the function subscribes to them before it first asks S3, and an order that
comes while S3 answers has that load accepted no more. While the relay is lost no order is heard, so no copy is here. A
write whose order could not be sent raises the fence that readers carry along: the next GET has the copy loaded anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from burstcache.adapters.clock import Clock
from burstcache.web.entry import Entry

_AWAITED_S = 0.25  # after it has gone: S3 gives the new object sooner, and a reader that waits would ask it as well
_CLOCKS_DIFFER_US = 10_000_000  # by less than this: a fence that is older than that was raised before the life began


class HeldCopy:
    """One object in memory, on one event loop."""

    def __init__(self, clock: Clock) -> None:
        """Hold nothing yet."""
        self.known: Entry | None = None  # what was here last, which S3 may confirm
        self.is_due = asyncio.Event()  # the object has to be loaded again
        self._clock = clock
        self._entry: Entry | None = None
        self._drops = 0
        self._gone_at_s = 0.0
        self._hears = True
        self._fence_us = clock.now_us() - _CLOCKS_DIFFER_US  # the highest that was seen
        self._is_here = asyncio.Event()

    def drop(self) -> None:
        """Let the copy go: its object was written."""
        if self._entry is not None:  # writes that follow one another would have readers wait for each
            self._gone_at_s = self._clock.monotonic_s()
        self._entry = None
        self._is_here.clear()
        self._drops += 1
        if self._hears:
            self.is_due.set()

    def see_fence(self, fence_us: int) -> None:
        """Let the copy go if a write has raised the fence since it was loaded, and the order may not have come."""
        if fence_us > self._fence_us:
            self._fence_us = fence_us
            self.drop()

    def follow_connection(self, hears: bool) -> None:
        """Let the copy go when orders are no longer heard, and when they are again: some may have been missed."""
        self._hears = hears
        self.is_due.clear()
        self.drop()

    async def load(self, fetch: Callable[[Entry | None], Awaitable[Entry]]) -> None:
        """Load the object; it is not here if a write has come meanwhile.

        Args:
            fetch: Returns the object as it is now, given the one that is known.
        """
        drops = self._drops
        self.known = await fetch(self.known)
        if drops == self._drops and self._hears:
            self._entry = self.known
            self._is_here.set()

    async def get(self, *, within_s: float) -> Entry | None:
        """Return the copy, after a moment but `within_s` if it is being loaded again; None if it is not here."""
        if self._entry is None:
            left_s = min(self._gone_at_s + _AWAITED_S - self._clock.monotonic_s(), within_s)
            if left_s > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_here.wait(), left_s)
        return self._entry
