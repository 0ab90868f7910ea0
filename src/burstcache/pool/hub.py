"""The hub: members dial in, and requests for chunks go out over their connections. It keeps no chunk."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

from burstcache.core.errors import FrameError, InvalidSettingError
from burstcache.pool import proof
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Link, request_numbers


class MemberLink(Link):
    """A hub's end of the connection to one member."""

    def __init__(self, hub: Hub, token: bytes, requests: Iterator[int]) -> None:
        super().__init__(requests)
        self.name = ""
        self._hub = hub
        self._token = token
        self._nonce = proof.nonce()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(Kind.CHALLENGE, 0, payload=self._nonce)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.forget(self)
        super().connection_lost(exc)

    def shake_hands(self, header: Header, name: bytes, payload: bytes) -> None:
        member_nonce, shown = payload[: proof.NONCE_BYTES], payload[proof.NONCE_BYTES :]
        if header.kind is not Kind.PROOF or not proof.is_proven(
            shown, self._token, b"member", name, self._nonce, member_nonce
        ):
            raise FrameError("a member has not proved that it knows its invocation's token")
        self.trust()
        self.send(Kind.WELCOME, 0, payload=proof.prove(self._token, b"hub", name, self._nonce, member_nonce))
        self.name = name.decode(errors="replace")
        self._hub.welcome(self)


class Hub:
    """Connections of members, by name; the newest of a name counts."""

    def __init__(self, token: bytes) -> None:
        if len(token) < proof.MIN_TOKEN_BYTES:
            raise InvalidSettingError(f"a token of {len(token)} bytes; at least {proof.MIN_TOKEN_BYTES} are accepted")
        self.members: dict[str, MemberLink] = {}
        self._token = token
        self._requests = request_numbers()
        self._server: asyncio.Server

    async def start(self, host: str, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port.

        Args:
            host: Address to listen on.
            port: Port; 0: any that is free.
            tls: Has the certificate that members trust; None: without TLS.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._expect_member, host, port, ssl=tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        self._server.close()
        links = list(self.members.values())
        for link in links:
            link.end()
        await asyncio.gather(*(link.ended for link in links))

    def _expect_member(self) -> MemberLink:
        return MemberLink(self, self._token, self._requests)

    def welcome(self, link: MemberLink) -> None:
        """Take a member in; an earlier connection of the same name ends."""
        if former := self.members.get(link.name):
            former.end()
        self.members[link.name] = link

    def forget(self, link: MemberLink) -> None:
        """Let a connection go."""
        if self.members.get(link.name) is link:
            del self.members[link.name]
