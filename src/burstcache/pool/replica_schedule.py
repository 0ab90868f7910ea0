"""The replica schedule: replicates each member that was written to, in a second environment.

Source:
    Wang 2020, section 4.2: every T_bak, two peer replicas of one function are synchronized.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from burstcache.core.messages.pool import ServeChunks
from burstcache.pool.channel import Notification
from burstcache.pool.frames import Kind
from burstcache.pool.hub import Hub

_PARALLEL = 4  # concurrent replications through one hub, which share its network with readers
_POLL_S = 5.0  # how often to check the interval while replication is off
_RUNS_WITHIN_S = 15.0  # including the start of the member

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaResult:
    """The result of replicating one member.

    Attributes:
        is_complete: Whether the replica has all chunks of the primary. If False, the primary has lost nothing. If the
            primary left at that moment, the next invocation selects the new primary, possibly an empty environment.
        took_s: Duration from the invocation until the primary could return.
    """

    is_complete: bool
    took_s: float


class ReplicaSchedule:
    """Replication of a hub's members that were written to.

    Args:
        hub: The hub, which invokes members.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def run(self, every_s: Callable[[], float]) -> None:
        """Replicate periodically, until cancelled.

        Args:
            every_s: Returns the interval [s]; 0: replication is off.
        """
        while True:
            await asyncio.sleep(every_s() or _POLL_S)
            try:
                if every_s():
                    await self.replicate_all()
            except Exception as error:  # any error, since nothing else would restart the schedule
                _logger.warning("not all members are copied: %r", error)

    async def replicate_all(self) -> dict[str, ReplicaResult]:
        """Replicate all members written to since their last replication. Failed replications are retried the next time.

        Only a member's owner replicates the member. The other hubs notify the owner of their writes.
        """
        limit = asyncio.Semaphore(_PARALLEL)
        results: dict[str, ReplicaResult] = {}

        async def replicate_one(member: str) -> None:
            peers = self._hub.peers
            if peers and not peers.is_owner(member):
                if await peers.hand_over_write(member):
                    self._hub.written.discard(member)
            else:
                async with limit:
                    results[member] = await self.replicate(member)

        await asyncio.gather(*map(replicate_one, list(self._hub.written)))
        return results

    async def replicate(self, member: str) -> ReplicaResult:
        """Replicate one member."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._hub.written.discard(member)
        is_complete = False
        try:
            if await self._is_running(member):
                is_complete = await self._copy(member)
        except Exception as error:  # after any error, the member is retried
            _logger.warning("member %s is not copied: %r", member, error)
        if not is_complete:
            self._hub.written.add(member)
        return ReplicaResult(is_complete, loop.time() - began_s)

    async def _copy(self, member: str) -> bool:
        is_complete = self._hub.expect_replica(member)
        if not is_complete or not self._hub.invocations:
            return False
        event = ServeChunks(op="serve", hub=self._hub.address_for(member), peer=True)
        invocation = self._hub.invocations.begin(member, event)
        try:
            await asyncio.wait((is_complete, invocation), return_when=asyncio.FIRST_COMPLETED)
            if not is_complete.done():
                invocation.result()
        finally:
            if not is_complete.done():
                self._hub.abandon_replica(member)
        return await is_complete

    async def _is_running(self, member: str) -> bool:
        """Start a member if needed. Return True if it responds."""
        channel = self._hub.find_channel(member)
        if not channel:
            return False
        answered = Notification(Kind.MISSING)
        request = channel.send_request(Kind.FETCH, answered, b"")
        try:
            return await asyncio.wait_for(answered.answer, _RUNS_WITHIN_S)
        except TimeoutError:
            channel.cancel_request(request)
            return False
