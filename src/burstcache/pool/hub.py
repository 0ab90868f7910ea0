"""The hub: members dial in, and requests for chunks go out over their connections. It keeps no chunk."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import ssl
from collections.abc import Sequence
from typing import TypeVar

from burstcache.core.errors import FrameError, InvalidSettingError
from burstcache.core.messages.pool import HubAddress
from burstcache.pool import proof
from burstcache.pool.connection import HANDSHAKE_LIMIT_S, FrameConnection
from burstcache.pool.copies import Copies
from burstcache.pool.door import Door, Part
from burstcache.pool.frames import Header, Kind
from burstcache.pool.invocations import Invocations, Invoke
from burstcache.pool.link import Asked, request_numbers
from burstcache.pool.member_link import MemberLink
from burstcache.pool.neighbours import NeighbourEnd, Neighbours
from burstcache.pool.passage import CopyPassage, Passage
from burstcache.pool.waking import Member

_MAX_AT_THE_DOOR = 1024  # connections that have not proved anything: more than members and readers that come at once
_MAX_WAKES = 4096  # invocations whose member has not dialled in: more than begin while one still may

C = TypeVar("C", bound=FrameConnection)


class Hub:
    """Connections of members, by name; the newest of a name counts.

    Args:
        token: What members let in know.
        reader_token: What readers know that are let in, since members cannot dial them; None: there are none.
        invoke: Invokes members; None: they come by themselves.

    Attributes:
        id: The hub's name, which no other one has.
        members: Connections by member.
        used: Members that were connected, each with its environment if it said BYE, until its reader empties it.
        written: Members that were written to since they were last copied.
        invocations: Those of members that it has begun.
        neighbours: Other hubs of the same pool, of which one may have the member that is needed.

    Raises:
        InvalidSettingError: A token is too short.
    """

    def __init__(self, token: bytes, reader_token: bytes | None = None, invoke: Invoke | None = None) -> None:
        for each in (token, token if reader_token is None else reader_token):
            if len(each) < proof.MIN_TOKEN_BYTES:
                raise InvalidSettingError(
                    f"a token of {len(each)} bytes; at least {proof.MIN_TOKEN_BYTES} are accepted"
                )
        self.id = secrets.token_hex(8)
        self.members: dict[str, MemberLink] = {}
        self.used: dict[str, str] = {}
        self._token = token
        self.written: set[str] = set()
        self.invocations = Invocations(invoke) if invoke else None
        self.neighbours = Neighbours(self.id, self.invocations) if self.invocations else None
        self._woken: dict[str, Member] = {}
        self._wakes: dict[int, str] = {}  # members that are to dial in, by the number in their invocations
        self._wake_numbers = itertools.count(1)
        self._requests = request_numbers()
        self._copies = Copies(self._reinstate)
        self._parts: dict[Kind, tuple[bytes, Part]] = {
            Kind.PROOF: (token, self._meet_member),
            Kind.COPY: (token, self._meet_copy),
            Kind.NEIGHBOUR: (token, self._meet_neighbour),
        }
        if reader_token is not None:
            self._parts[Kind.READER] = reader_token, self._meet_reader
        self._connections: set[FrameConnection] = set()
        self._server: asyncio.Server
        self._address: tuple[str, int, str]

    async def start(
        self,
        host: str,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        *,
        certificate: str = "",
        reached_at: str = "",
    ) -> int:
        """Listen, and return the port.

        Args:
            host: Address to listen on.
            port: Port; 0: any that is free.
            tls: Has the certificate that members trust; None: without TLS.
            certificate: The same as PEM, for invocations.
            reached_at: The address that members dial; empty: `host`.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Door(self._parts, self._open),
            host,
            port,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_LIMIT_S if tls else None,
        )
        port = int(self._server.sockets[0].getsockname()[1])
        self._address = reached_at or host, port, certificate
        return port

    async def stop(self) -> None:
        """End all connections; those to other hubs last, which learn so when members have returned."""
        self._server.close()
        for member in self._woken.values():
            member.stop()
        await self._end([each for each in self._connections if not isinstance(each, NeighbourEnd)])
        if self.invocations:
            await self.invocations.stop()
        if self.neighbours:
            await self.neighbours.stop()
        await self._end(list(self._connections))

    def link(self, member: str) -> Asked | None:
        """Return what a member is asked over; None: it is not there, and cannot be woken."""
        if not self.neighbours:
            return self.members.get(member)
        if member not in self._woken:
            self._woken[member] = Member(member, self, self.neighbours.wake, self._requests)
        return self._woken[member]

    def address_for(self, member: str) -> HubAddress:
        """Return what a member has to know to dial in, once."""
        wake = next(self._wake_numbers)
        self._wakes[wake] = member
        if len(self._wakes) > _MAX_WAKES:
            del self._wakes[next(iter(self._wakes))]
        host, port, certificate = self._address
        return {
            "id": self.id,
            "host": host,
            "port": port,
            "token": self._token.hex(),
            "certificate": certificate,
            "wake": wake,
        }

    def welcome(self, link: MemberLink) -> None:
        """Take a member in; an earlier connection of the same name ends, unless it is being copied."""
        former = self.members.get(link.name)
        self.members[link.name] = link
        if self.neighbours:
            self.neighbours.arrived(link.name)
        is_copied = former is not None and link.is_copy and self._copies.begin(former, link)
        if former and not is_copied:
            former.end()
        if woken := self._woken.get(link.name):
            woken.connected(is_copy=is_copied)

    def heard(self, link: MemberLink) -> None:
        """Note that a member has shown that it is there."""
        link.heard_s = asyncio.get_running_loop().time()
        woken = self._woken.get(link.name)
        if woken and self.members.get(link.name) is link:  # not what an environment says that was replaced
            woken.heard()

    def forget(self, link: MemberLink) -> None:
        """Let a connection go; an environment that was being copied takes over again."""
        self.used.setdefault(link.name, "")
        was_active = self.members.get(link.name) is link
        if was_active:
            del self.members[link.name]
        self._copies.lost(link)
        if was_active and link.name in self._woken and link.name not in self.members:
            self._woken[link.name].gone()

    def expect_copy(self, member: str) -> asyncio.Future[bool] | None:
        """Have a member stay until a second environment has its chunks; None: it has no connection.

        The result is whether that one has everything. It has to be invoked soon after.
        """
        first = self.members.get(member)
        return self._copies.expect(first) if first else None

    def abandon_copy(self, member: str) -> None:
        """Let a member go on that waits for a second environment: that one will not come."""
        self._copies.abandon(member)

    def _reinstate(self, link: MemberLink) -> None:
        self.members[link.name] = link

    def _open(self, door: Door) -> None:
        self._keep(door)
        is_open = self._server.is_serving()  # else it was accepted when the hub stopped
        if not is_open or sum(isinstance(each, Door) for each in self._connections) > _MAX_AT_THE_DOOR:
            door.end()

    def _meet_member(self, name: str, header: Header) -> MemberLink:
        # Lambda may deliver an event twice: the second environment would be an empty one.
        if self.neighbours and self._wakes.pop(header.request, None) != name:
            raise FrameError(f"member {name} dials in for wake {header.request}, which is another's or used")
        return self._keep(MemberLink(self, name, self._requests, is_copy=header.number == 1))

    def _meet_reader(self, member: str, header: Header) -> Passage:
        return self._keep(Passage(lambda: self.link(member)))

    def _meet_copy(self, member: str, header: Header) -> CopyPassage:
        return self._keep(self._copies.passage(member))

    def _meet_neighbour(self, hub: str, header: Header) -> FrameConnection:
        if not self.neighbours:
            raise FrameError(f"the hub {hub} dials in, and this one wakes nobody")
        neighbours = self.neighbours

        def awake(member: str) -> Asked | None:
            is_awake = member in self.members or neighbours.is_invoked(member)
            return self.link(member) if is_awake and self._server.is_serving() else None

        def waking(member: str) -> Asked | None:
            if not self._server.is_serving():  # it stops
                return None
            if member not in self._woken or self._woken[member].is_asleep:
                neighbours.take_duty(member)
            return self.link(member)

        return self._keep(NeighbourEnd(neighbours, awake=awake, waking=waking, written=self.written.add))

    @staticmethod
    async def _end(connections: Sequence[FrameConnection]) -> None:
        for connection in connections:
            connection.end()
        await asyncio.gather(*(connection.ended for connection in connections))

    def _keep(self, connection: C) -> C:
        self._connections.add(connection)
        connection.ended.add_done_callback(lambda _: self._connections.discard(connection))
        return connection
