"""A hub somewhere else, for readers that members cannot dial: one connection for each member that is asked."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.connection import HANDSHAKE_LIMIT_S, FrameConnection, Place
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Asker, Link, request_numbers
from burstcache.pool.proof import Introduction

_RETRY_S = 1.0  # a hub that cannot be reached is not dialled for each chunk

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a hub listens.

    Attributes:
        host: Its address.
        port: Its port.
        tls: Trusts its certificate alone; None: without TLS.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    async def connect(self, protocol: FrameConnection) -> None:
        """Dial, and let the protocol have the connection.

        Raises:
            OSError: The hub cannot be reached, or is another one.
        """
        name = "" if self.tls else None  # it is known by its certificate
        async with asyncio.timeout(HANDSHAKE_LIMIT_S):
            await asyncio.get_running_loop().create_connection(
                lambda: protocol, self.host, self.port, ssl=self.tls, server_hostname=name
            )


class RemoteLink(Link):
    """A reader's end of a connection to one member, through a hub; what is asked early waits for it."""

    def __init__(self, address: Address, introduction: Introduction, requests: Iterator[int]) -> None:
        super().__init__(requests)
        self._address = address
        self._introduction = introduction
        self._early: dict[int, Callable[[], None]] = {}
        self._is_connected = False

    async def dial(self) -> None:
        """Dial the hub.

        Raises:
            OSError: It cannot be reached, so nothing that was asked early is answered.
        """
        try:
            await self._address.connect(self)
        except (OSError, asyncio.CancelledError):
            self.give_up()
            raise

    def ask(
        self, kind: Kind, asker: Asker, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        if self.is_trusted:
            return super().ask(kind, asker, name, payload, number=number, crc32c=crc32c)
        request = next(self._requests)
        self._askers[request] = asker
        self._early[request] = lambda: self.send(kind, request, name, payload, number=number, crc32c=crc32c)
        return request

    def cancel(self, request: int) -> None:
        if self._early.pop(request, None):
            del self._askers[request]
        else:
            super().cancel(request)

    def end(self) -> None:
        if self._is_connected:
            super().end()
        else:
            self.give_up()

    def give_up(self) -> None:
        """Let what was asked early fail: the hub cannot be reached."""
        self._early.clear()
        if not self.ended.done():
            self.ended.set_result(None)
        self.fail_all()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._is_connected = True
        if self.ended.done():
            super().end()

    def place(self, header: Header, name: bytes) -> Place:
        return super().place(header, name) if self.is_trusted else memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if self.is_trusted:
            return super().handle(header, name, payload)
        frame = self._introduction.answer(header, bytes(payload or b""))
        if frame:
            return self.send(frame[0], 0, *frame[1:])
        self.trust()
        early, self._early = self._early, {}
        for send in early.values():
            send()


class RemoteHub:
    """What `PoolReader` uses instead of a `Hub` in its own process.

    Args:
        address: Where the hub listens.
        token: What the hub lets readers in by.
    """

    def __init__(self, address: Address, token: bytes) -> None:
        self._address = address
        self._token = token
        self._links: dict[str, RemoteLink] = {}
        self._requests = request_numbers()
        self._dials: set[asyncio.Task[None]] = set()
        self._retry_at_s = -math.inf

    def link(self, member: str) -> Link | None:
        """Return what a member is asked over; None: the hub could not be reached a moment ago."""
        link = self._links.get(member)
        if link and not link.ended.done():
            return link
        if not self.is_reachable:
            return None
        link = RemoteLink(self._address, Introduction(Kind.READER, member.encode(), self._token), self._requests)
        self._links[member] = link
        dial = asyncio.create_task(self._dial(link))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)
        return link

    @property
    def is_reachable(self) -> bool:
        """False if the hub could not be reached a moment ago."""
        return asyncio.get_running_loop().time() >= self._retry_at_s

    async def stop(self) -> None:
        """End all connections."""
        links = list(self._links.values())
        for link in links:
            link.end()
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        await asyncio.gather(*(link.ended for link in links))

    async def _dial(self, link: RemoteLink) -> None:
        loop = asyncio.get_running_loop()
        try:
            await link.dial()
        except OSError as error:
            if loop.time() >= self._retry_at_s:
                _logger.warning("the hub at %s:%d cannot be reached: %r", self._address.host, self._address.port, error)
            self._retry_at_s = loop.time() + _RETRY_S
