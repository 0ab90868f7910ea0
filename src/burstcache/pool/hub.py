"""The hub: members dial in, and requests for chunks go out over their connections. It keeps no chunk."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from typing import Protocol

from burstcache.core.errors import FrameError, InvalidSettingError
from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool import proof
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind


class Asker(Protocol):
    """Who asks members for something and is called back, once per request unless that is cancelled."""

    def place(self, request: int, header: Header) -> memoryview | None:
        """Return where the chunk that begins to arrive belongs, as long as it is; None: nowhere."""

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        """Take an answer."""

    def failed(self, request: int) -> None:
        """Take note that the member is gone."""


class MemberLink(FrameConnection):
    """A hub's end of the connection to one member."""

    def __init__(self, hub: Hub, token: bytes) -> None:
        super().__init__()
        self.name = ""
        self._hub = hub
        self._token = token
        self._nonce = proof.nonce()
        self._askers: dict[int, Asker] = {}
        self._receiving = 0

    def ask(
        self, kind: Kind, asker: Asker, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request and return its number, which is unique in the hub."""
        request = self._hub.next_request()
        self._askers[request] = asker
        self.send(kind, request, name, payload, number=number, crc32c=crc32c)
        return request

    def cancel(self, request: int) -> None:
        """Forget a GET, and free the place that its chunk was being received in."""
        if not self._askers.pop(request, None):
            return
        if self._receiving == request:
            self.stop_receiving()
        elif not self.transport.is_closing():
            self.send(Kind.CANCEL, request)

    def end(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(Kind.CHALLENGE, 0, payload=self._nonce)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._hub.forget(self)
        askers, self._askers = self._askers, {}
        for request, asker in askers.items():
            asker.failed(request)

    def place(self, header: Header, name: bytes) -> memoryview | None:
        if not self.is_trusted:
            return memoryview(bytearray(header.payload_bytes))
        self._receiving = header.request
        asker = self._askers.get(header.request)
        return asker.place(header.request, header) if asker else None

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if not self.is_trusted:
            return self._check(header, name, bytes(payload or b""))
        self._receiving = 0
        if asker := self._askers.pop(header.request, None):
            asker.answered(header.request, header, payload)

    def _check(self, header: Header, member: bytes, payload: bytes) -> None:
        member_nonce, shown = payload[: proof.NONCE_BYTES], payload[proof.NONCE_BYTES :]
        if header.kind is not Kind.PROOF or not proof.is_proven(
            shown, self._token, b"member", member, self._nonce, member_nonce
        ):
            raise FrameError("a member has not proved that it knows its invocation's token")
        self.trust()
        self.send(Kind.WELCOME, 0, payload=proof.prove(self._token, b"hub", member, self._nonce, member_nonce))
        self.name = member.decode(errors="replace")
        self._hub.welcome(self)


class Hub:
    """Connections of members, by name; the newest of a name counts."""

    def __init__(self, token: bytes) -> None:
        if len(token) < proof.MIN_TOKEN_BYTES:
            raise InvalidSettingError(f"a token of {len(token)} bytes; at least {proof.MIN_TOKEN_BYTES} are accepted")
        self.members: dict[str, MemberLink] = {}
        self._token = token
        self._requests = itertools.count(1)
        self._server: asyncio.Server

    async def start(self, host: str, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port.

        Args:
            host: Address to listen on.
            port: Port; 0: any that is free.
            tls: Has the certificate that members trust; None: without TLS.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: MemberLink(self, self._token), host, port, ssl=tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        self._server.close()
        links = list(self.members.values())
        for link in links:
            link.end()
        await asyncio.gather(*(link.ended for link in links))

    def next_request(self) -> int:
        """Return a number that no request in flight has."""
        return next(self._requests) & 0xFFFFFFFF or self.next_request()

    def welcome(self, link: MemberLink) -> None:
        """Take a member in; an earlier connection of the same name ends."""
        if former := self.members.get(link.name):
            former.end()
        self.members[link.name] = link

    def forget(self, link: MemberLink) -> None:
        """Let a connection go."""
        if self.members.get(link.name) is link:
            del self.members[link.name]
