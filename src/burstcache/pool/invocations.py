"""Invocations of members by a hub. Lambda responds to an invocation when the member returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from burstcache.core.errors import ServiceError
from burstcache.core.messages.pool import MemberState, ServeChunks

_RETURNS_WITHIN_S = 2.0  # after its BYE; a later response may be lost
_LAST_ANSWERS_S = 1.0  # how long a stopping hub waits. Members return as soon as they lose the connection

# Invokes a member with an event and returns its response; raises a BurstcacheError if the invocation fails.
Invoke = Callable[[str, ServeChunks], Awaitable[MemberState]]


class Invocations:
    """All invocations of one hub, on its event loop.

    Args:
        invoke: Invokes a member, by name, with an event.
    """

    def __init__(self, invoke: Invoke) -> None:
        self._invoke = invoke
        self._ended = 0
        self._ended_ms = 0.0
        self._running: dict[asyncio.Task[MemberState], tuple[str, float]] = {}  # member, start [s of the loop]

    @property
    def count(self) -> int:
        """Number of invocations started, except those that Lambda rejected."""
        return self._ended + len(self._running)

    @property
    def billed_ms(self) -> float:
        """Billed duration of all invocations so far [ms], as reported by members, or measured here if a member died."""
        now_s = asyncio.get_running_loop().time()
        return self._ended_ms + sum((now_s - since_s) * 1000 for _, since_s in self._running.values())

    def begin(self, member: str, event: ServeChunks) -> asyncio.Task[MemberState]:
        """Invoke a member. The task returns the member's response or raises the invocation's BurstcacheError."""
        invocation = asyncio.ensure_future(self._invoke(member, event))
        self._running[invocation] = member, asyncio.get_running_loop().time()
        invocation.add_done_callback(self._end)
        return invocation

    async def wait_idle(self, member: str) -> None:
        """Wait up to 2 s until a member's invocations have returned. A new one would start an empty environment."""
        running = [invocation for invocation, (name, _) in self._running.items() if name == member]
        if running:
            await asyncio.wait(running, timeout=_RETURNS_WITHIN_S)

    async def stop(self) -> None:
        """Wait up to a second for the last responses, then cancel the remaining invocations."""
        if self._running:
            await asyncio.wait(self._running, timeout=_LAST_ANSWERS_S)
        for invocation in list(self._running):
            invocation.cancel()

    def _end(self, invocation: asyncio.Task[MemberState]) -> None:
        ran_ms = (asyncio.get_running_loop().time() - self._running[invocation][1]) * 1000
        del self._running[invocation]
        if invocation.cancelled():
            billed_ms = ran_ms
        elif (error := invocation.exception()) is None:
            billed_ms = invocation.result()["billed_ms"]
        elif isinstance(error, ServiceError) and error.code:  # Lambda rejected it
            return
        else:
            billed_ms = ran_ms
        self._ended += 1
        self._ended_ms += billed_ms
