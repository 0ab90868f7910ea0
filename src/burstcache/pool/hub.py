"""The hub: members dial in, and requests for chunks go out over their connections. It keeps no chunk."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import TypeVar

from burstcache.core.errors import InvalidSettingError
from burstcache.pool import proof
from burstcache.pool.connection import FrameConnection
from burstcache.pool.door import Door, Part
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Link, request_numbers
from burstcache.pool.passage import CopyPassage, Passage

C = TypeVar("C", bound=FrameConnection)


class MemberLink(Link):
    """A hub's end of the connection to one member."""

    def __init__(self, hub: Hub, name: str, requests: Iterator[int], is_copy: bool) -> None:
        super().__init__(requests)
        self.name = name
        self.is_copy = is_copy
        self._hub = hub

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hub.welcome(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.forget(self)
        super().connection_lost(exc)


class Hub:
    """Connections of members, by name; the newest of a name counts.

    Args:
        token: What members let in know.
        reader_token: What readers know that are let in, since members cannot dial them; None: there are none.

    Raises:
        InvalidSettingError: A token is too short.
    """

    def __init__(self, token: bytes, reader_token: bytes | None = None) -> None:
        for each in (token, token if reader_token is None else reader_token):
            if len(each) < proof.MIN_TOKEN_BYTES:
                raise InvalidSettingError(
                    f"a token of {len(each)} bytes; at least {proof.MIN_TOKEN_BYTES} are accepted"
                )
        self.members: dict[str, MemberLink] = {}
        self._requests = request_numbers()
        self._firsts: dict[str, MemberLink] = {}  # environments that are copied, by member
        self._parts: dict[Kind, tuple[bytes, Part]] = {
            Kind.PROOF: (token, self._meet_member),
            Kind.COPY: (token, self._meet_copy),
        }
        if reader_token is not None:
            self._parts[Kind.READER] = reader_token, self._meet_reader
        self._connections: set[FrameConnection] = set()
        self._server: asyncio.Server

    async def start(self, host: str, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port.

        Args:
            host: Address to listen on.
            port: Port; 0: any that is free.
            tls: Has the certificate that members trust; None: without TLS.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Door(self._parts, self._keep), host, port, ssl=tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        self._server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.end()
        await asyncio.gather(*(connection.ended for connection in connections))

    def link(self, member: str) -> Link | None:
        """Return the connection to a member; None: it is not there."""
        return self.members.get(member)

    def welcome(self, link: MemberLink) -> None:
        """Take a member in; an earlier connection of the same name ends, unless it is being copied."""
        former = self.members.get(link.name)
        if former and link.is_copy and link.name not in self._firsts:
            self._firsts[link.name] = former
        elif former:
            former.end()
        self.members[link.name] = link

    def forget(self, link: MemberLink) -> None:
        """Let a connection go; an environment that was being copied takes over again."""
        if self._firsts.get(link.name) is link:
            del self._firsts[link.name]
        if self.members.get(link.name) is link:
            del self.members[link.name]
            self._end_copy(link.name, is_done=False)

    def _end_copy(self, member: str, *, is_done: bool) -> None:
        first = self._firsts.pop(member, None)
        if not first:
            return
        first.send(Kind.COPIED, 0, number=is_done)
        if not is_done:
            if copy := self.members.get(member):
                copy.send(Kind.COPIED, 0, number=1)
            self.members[member] = first

    def _meet_member(self, name: str, header: Header) -> MemberLink:
        return self._keep(MemberLink(self, name, self._requests, is_copy=header.number == 1))

    def _meet_reader(self, member: str, header: Header) -> Passage:
        return self._keep(Passage(lambda: self.link(member)))

    def _meet_copy(self, member: str, header: Header) -> CopyPassage:
        passage = self._keep(CopyPassage(lambda: self._firsts.get(member)))
        copy = self.members.get(member)

        def ended(_: object) -> None:
            if copy and self.members.get(member) is copy:
                self._end_copy(member, is_done=passage.is_done)

        passage.ended.add_done_callback(ended)
        return passage

    def _keep(self, connection: C) -> C:
        self._connections.add(connection)
        connection.ended.add_done_callback(lambda _: self._connections.discard(connection))
        return connection
