"""When members are copied: each that was written to, through a second environment of it that its hub invokes.

Source:
    Wang 2020, section 4.2: every T_bak, two peer replicas of one function are made alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from burstcache.core.messages.pool import Serve
from burstcache.pool.frames import Kind
from burstcache.pool.hub import Hub
from burstcache.pool.link import Told

_AT_ONCE = 4  # copies that a hub passes at a time: readers share its network
_LOOK_EVERY_S = 5.0  # whether a copy goes on; one that did not move for as long has ended
_AWAKE_WITHIN_S = 15.0  # of a member that may have to begin first

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup of a member.

    Attributes:
        is_whole: Whether the second environment has all that the first one has; if not, that has everything as before.
            After a first one that left just then, the first is what the next wake finds: perhaps an empty one.
        took_s: From the invocation until the first one could return.
    """

    is_whole: bool
    took_s: float


class Backups:
    """Copies the members of a hub that were written to.

    Args:
        hub: The hub; it invokes members.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def run(self, every_s: Callable[[], float]) -> None:
        """Copy what was written, again and again.

        Args:
            every_s: Returns how often [s]; 0: never.
        """
        while True:
            await asyncio.sleep(every_s() or _LOOK_EVERY_S)
            try:
                if every_s():
                    await self.back_up_all()
            except Exception as error:  # whatever it is, nobody else copies
                _logger.warning("not all members are copied: %r", error)

    async def back_up_all(self) -> dict[str, Backup]:
        """Copy all members that were written to since their last copy; those that fail are tried again next time.

        Of several hubs, one copies a member, and the others tell it.
        """
        limit = asyncio.Semaphore(_AT_ONCE)
        made: dict[str, Backup] = {}

        async def one(member: str) -> None:
            neighbours = self._hub.neighbours
            if neighbours and not neighbours.is_first(member):
                if await neighbours.hand_over(member):
                    self._hub.written.discard(member)
            else:
                async with limit:
                    made[member] = await self.back_up(member)

        await asyncio.gather(*map(one, list(self._hub.written)))
        return made

    async def back_up(self, member: str) -> Backup:
        """Copy one member."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        self._hub.written.discard(member)
        is_whole = False
        try:
            if await self._is_awake(member):
                is_whole = await self._copy(member)
        except Exception as error:  # whatever it is, the member is tried again
            _logger.warning("member %s is not copied: %r", member, error)
        if not is_whole:
            self._hub.written.add(member)
        return Backup(is_whole, loop.time() - begun_s)

    async def _copy(self, member: str) -> bool:
        copied = self._hub.expect_copy(member)
        if not copied or not self._hub.invocations:
            return False
        event = Serve(op="serve", hub=self._hub.address_for(member), peer=True)
        invocation = self._hub.invocations.begin(member, event)
        try:
            await asyncio.wait((copied, invocation), return_when=asyncio.FIRST_COMPLETED)
            if not copied.done():
                invocation.result()
        finally:
            if not copied.done():
                self._hub.abandon_copy(member)
        return await copied

    async def _is_awake(self, member: str) -> bool:
        asked = self._hub.link(member)
        if not asked:
            return False
        awake = Told(Kind.MISSING)
        request = asked.ask(Kind.FETCH, awake, b"")
        try:
            return await asyncio.wait_for(awake.answer, _AWAKE_WITHIN_S)
        except TimeoutError:
            asked.cancel(request)
            return False
