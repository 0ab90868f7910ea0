"""Several hubs, one pool: a member that one of them has connected gets the addresses of others that need it.

A member that sleeps is invoked by one hub alone, the first by rendezvous hashing: two invocations at once would make
two environments, of which one is empty.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable

from burstcache.core.errors import FrameError
from burstcache.core.messages.pool import Serve
from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.placement import holders
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Asked, Told, request_numbers
from burstcache.pool.proof import Introduction
from burstcache.pool.remote_hub import Address, RemoteLink
from burstcache.pool.tls import member_tls

IF_CONNECTED, IN_ANY_CASE = 0, 1  # numbers of a DIAL: only if the member has a connection, or wake it for that
_LIMIT_S = 2.0  # of a neighbour's answer; a member that has to be woken first may take longer, and is awaited anyway
_MAX_ADDRESS_BYTES = 16 * 1024

_logger = logging.getLogger(__name__)

Invoke = Callable[[str, Serve], Awaitable[None]]


class Neighbours:
    """The other hubs, as one hub sees them.

    Args:
        id_: The hub's own.
        invoke: Invokes the member of a name with an event.
    """

    def __init__(self, id_: str, invoke: Invoke) -> None:
        self._id = id_
        self._invoke = invoke
        self._known: dict[str, KnownHub] = {}
        self._links: dict[str, RemoteLink] = {}
        self._requests = request_numbers()
        self._duties: set[str] = set()  # members that a neighbour wants this hub to wake

    def follow(self, hubs: Iterable[KnownHub]) -> None:
        """Note all other hubs."""
        self._known = {hub["id"]: hub for hub in hubs if hub["id"] != self._id}
        for id_ in self._links.keys() - self._known.keys():
            self._links.pop(id_).end()

    def is_first(self, member: str) -> bool:
        """Whether this hub is the one that invokes a member."""
        return self._first(member) == self._id

    def take_duty(self, member: str) -> None:
        """Invoke a member the next time, whatever this hub knows of others: one of them has asked for that."""
        self._duties.add(member)

    async def wake(self, member: str, event: Serve) -> None:
        """Have a member dial this hub: by a neighbour that has it or has to wake it, else by an invocation.

        Raises:
            BurstcacheError: It cannot be invoked.
        """
        first = self._id if member in self._duties else self._first(member)
        self._duties.discard(member)
        payload = json.dumps(event["hub"]).encode()
        asked = [
            self._ask(hub, Kind.DIAL, member, payload, IN_ANY_CASE if id_ == first else IF_CONNECTED)
            for id_, hub in self._known.items()
        ]
        if not any(await asyncio.gather(*asked)):
            await self._invoke(member, event)

    async def hand_over(self, member: str) -> bool:
        """Tell the hub that invokes a member that it was written to, and return whether it has taken note."""
        hub = self._known.get(self._first(member))
        return hub is not None and await self._ask(hub, Kind.WRITTEN, member, b"", 0)

    async def stop(self) -> None:
        """End all connections to other hubs."""
        links = list(self._links.values())
        for link in links:
            link.end()
        await asyncio.gather(*(link.ended for link in links))

    def _first(self, member: str) -> str:
        return holders(member.encode(), [self._id, *self._known], 1)[0]

    async def _ask(self, hub: KnownHub, kind: Kind, member: str, payload: bytes, number: int) -> bool:
        """Return whether a hub does what it is asked for."""
        told = Told(Kind.STORED)
        try:
            async with asyncio.timeout(_LIMIT_S):
                link = await self._link(hub)
                link.ask(kind, told, member.encode(), payload, number=number)
                return await told.answer
        except OSError as error:
            _logger.warning("the hub %s does not answer: %r", hub["id"], error)
            return False

    async def _link(self, hub: KnownHub) -> RemoteLink:
        link = self._links.get(hub["id"])
        if link and not link.ended.done():
            return link
        tls = member_tls(hub["certificate"]) if hub["certificate"] else None
        introduction = Introduction(Kind.NEIGHBOUR, self._id.encode(), bytes.fromhex(hub["token"]))
        link = RemoteLink(Address(hub["host"], hub["port"], tls), introduction, self._requests)
        self._links[hub["id"]] = link
        await link.dial()
        return link


class NeighbourEnd(FrameConnection):
    """A hub's end of the connection that another hub has made.

    Args:
        connected: Returns a member's connection, if it has one.
        awake: Returns what a member is asked over, and wakes it for that.
        written: Notes a member that was written to.
    """

    def __init__(
        self,
        connected: Callable[[str], Asked | None],
        awake: Callable[[str], Asked | None],
        written: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._written = written
        self._connected = connected
        self._awake = awake

    def place(self, header: Header, name: bytes) -> memoryview:
        if header.payload_bytes > _MAX_ADDRESS_BYTES:
            raise FrameError(
                f"an address of {header.payload_bytes:,} bytes; at most {_MAX_ADDRESS_BYTES:,} are accepted"
            )
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        member = name.decode(errors="replace")
        if header.kind is Kind.WRITTEN:
            self._written(member)
            return self.send(Kind.STORED, header.request)
        if header.kind is not Kind.DIAL or not payload:
            raise FrameError(f"a hub does not send {header.kind.name}")
        asked = self._awake(member) if header.number == IN_ANY_CASE else self._connected(member)
        if asked:
            asked.ask(Kind.DIAL, _Answer(self, header.request), b"", payload)
        else:
            self.send(Kind.MISSING, header.request)


class _Answer:
    """Passes on what a member says."""

    def __init__(self, end: NeighbourEnd, request: int) -> None:
        self._end = end
        self._request = request

    def place(self, request: int, header: Header) -> None:
        return None

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        if not self._end.ended.done():
            self._end.send(header.kind, self._request)

    def failed(self, request: int) -> None:
        if not self._end.ended.done():
            self._end.send(Kind.MISSING, self._request)
