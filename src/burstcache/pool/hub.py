"""The hub: members dial in, and requests for chunks go out over their connections. It keeps no chunk."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

from burstcache.core.errors import InvalidSettingError
from burstcache.pool import proof
from burstcache.pool.connection import FrameConnection
from burstcache.pool.door import Door, Part
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Link, request_numbers
from burstcache.pool.passage import Passage


class MemberLink(Link):
    """A hub's end of the connection to one member."""

    def __init__(self, hub: Hub, name: str, requests: Iterator[int]) -> None:
        super().__init__(requests)
        self.name = name
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
        self._parts: dict[Kind, tuple[bytes, Part]] = {Kind.PROOF: (token, self._meet_member)}
        if reader_token is not None:
            self._parts[Kind.READER] = reader_token, self._meet_reader
        self._at_the_door: set[Door] = set()
        self._passages: set[Passage] = set()
        self._server: asyncio.Server

    async def start(self, host: str, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port.

        Args:
            host: Address to listen on.
            port: Port; 0: any that is free.
            tls: Has the certificate that members trust; None: without TLS.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Door(self._parts, self._at_the_door), host, port, ssl=tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        self._server.close()
        connections: list[FrameConnection] = [*self._at_the_door, *self._passages, *self.members.values()]
        for connection in connections:
            connection.end()
        await asyncio.gather(*(connection.ended for connection in connections))

    def link(self, member: str) -> Link | None:
        """Return the connection to a member; None: it is not there."""
        return self.members.get(member)

    def welcome(self, link: MemberLink) -> None:
        """Take a member in; an earlier connection of the same name ends."""
        if former := self.members.get(link.name):
            former.end()
        self.members[link.name] = link

    def forget(self, link: MemberLink) -> None:
        """Let a connection go."""
        if self.members.get(link.name) is link:
            del self.members[link.name]

    def _meet_member(self, name: str, header: Header) -> MemberLink:
        return MemberLink(self, name, self._requests)

    def _meet_reader(self, member: str, header: Header) -> Passage:
        passage = Passage(lambda: self.link(member))
        self._passages.add(passage)
        passage.ended.add_done_callback(lambda _: self._passages.discard(passage))
        return passage
