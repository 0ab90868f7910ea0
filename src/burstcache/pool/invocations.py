"""Invocations of members that a hub has begun: Lambda answers each when its environment has returned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from burstcache.core.errors import ServiceError
from burstcache.core.messages.pool import MemberState, Serve

_RETURNS_WITHIN_S = 2.0  # of its BYE; an answer that takes longer may have lost its way
_LAST_ANSWERS_S = 1.0  # for which a hub that stops waits: members return as soon as they have lost it

# Runs a member's event, and returns what the member answers in the end; raises a BurstcacheError if it fails.
Invoke = Callable[[str, Serve], Awaitable[MemberState]]


class Invocations:
    """All invocations of one hub. All methods belong to its event loop.

    Args:
        invoke: Invokes the member of a name with an event.
    """

    def __init__(self, invoke: Invoke) -> None:
        self._invoke = invoke
        self._ended = 0
        self._ended_ms = 0.0
        self._running: dict[asyncio.Task[MemberState], tuple[str, float]] = {}  # of which member, since when

    @property
    def count(self) -> int:
        """How many have begun; those that Lambda has refused have not."""
        return self._ended + len(self._running)

    @property
    def billed_ms(self) -> float:
        """For how long all together are billed until now, as members measure it; of one that died, as this hub does."""
        now_s = asyncio.get_running_loop().time()
        return self._ended_ms + sum((now_s - since_s) * 1000 for _, since_s in self._running.values())

    def begin(self, member: str, event: Serve) -> asyncio.Task[MemberState]:
        """Begin one, and return its end: what the member answers, or the BurstcacheError that it fails with."""
        invocation = asyncio.ensure_future(self._invoke(member, event))
        self._running[invocation] = member, asyncio.get_running_loop().time()
        invocation.add_done_callback(self._end)
        return invocation

    async def returned(self, member: str) -> None:
        """Wait until no environment of a member is busy: another invocation would make one without its chunks."""
        running = [invocation for invocation, (name, _) in self._running.items() if name == member]
        if running:
            await asyncio.wait(running, timeout=_RETURNS_WITHIN_S)

    async def stop(self) -> None:
        """Wait for the last answers, and for no others."""
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
        elif isinstance(error, ServiceError) and error.code:  # Lambda has refused it
            return
        else:
            billed_ms = ran_ms
        self._ended += 1
        self._ended_ms += billed_ms
