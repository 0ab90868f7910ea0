"""A remote hub, for readers that members cannot dial: one connection to the hub per requested member."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.channel import Caller, ConnectionChannel, request_numbers
from burstcache.pool.connection import HANDSHAKE_LIMIT_S, FrameConnection, Place
from burstcache.pool.frames import Header, Kind
from burstcache.pool.handshake import Introduction
from burstcache.pool.tls import member_tls

_RETRY_S = 1.0  # between dials of an unreachable hub, so that not every request dials the hub

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a hub.

    Attributes:
        host: The hub's IP address or host name.
        port: The hub's port.
        tls: TLS context that trusts only the hub's certificate. None: no TLS.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, hub: KnownHub) -> Self:
        """Return the address of a hub in a plan or a message."""
        tls = member_tls(hub["certificate"]) if hub["certificate"] else None
        return cls(hub["host"], hub["port"], tls)

    async def connect(self, protocol: FrameConnection) -> None:
        """Dial the hub, and attach the protocol to the connection.

        Raises:
            OSError: The hub is unreachable, or has another certificate.
        """
        name = "" if self.tls else None  # the certificate is pinned, so its name is not checked
        async with asyncio.timeout(HANDSHAKE_LIMIT_S):
            await asyncio.get_running_loop().create_connection(
                lambda: protocol, self.host, self.port, ssl=self.tls, server_hostname=name
            )


class RemoteChannel(ConnectionChannel):
    """A channel to one member through a remote hub. Requests are queued until the handshake is complete."""

    def __init__(self, address: Address, introduction: Introduction, requests: Iterator[int]) -> None:
        super().__init__(requests)
        self._address = address
        self._introduction = introduction
        self._early: dict[int, Callable[[], None]] = {}
        self._is_connected = False

    async def dial(self) -> None:
        """Dial the hub.

        Raises:
            OSError: The hub is unreachable. All waiting requests fail.
        """
        try:
            await self._address.connect(self)
        except (OSError, asyncio.CancelledError):
            self.fail_early()
            raise

    def send_request(
        self, kind: Kind, caller: Caller, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        if self.is_trusted:
            return super().send_request(kind, caller, name, payload, number=number, crc32c=crc32c)
        request = next(self._requests)
        self._callers[request] = caller
        self._early[request] = lambda: self.send(kind, request, name, payload, number=number, crc32c=crc32c)
        return request

    def cancel_request(self, request: int) -> None:
        if self._early.pop(request, None):
            del self._callers[request]
        else:
            super().cancel_request(request)

    def end(self) -> None:
        if self._is_connected:
            super().end()
        else:
            self.fail_early()

    def fail_early(self) -> None:
        """Fail all requests that wait for the connection, since it was not established."""
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
    """A hub in another process, which a `PoolReader` uses like a local `Hub`.

    Args:
        address: The hub's address.
        token: The hub's token for readers.
    """

    def __init__(self, address: Address, token: bytes) -> None:
        self._address = address
        self._token = token
        self._channels: dict[str, RemoteChannel] = {}
        self._requests = request_numbers()
        self._dials: set[asyncio.Task[None]] = set()
        self._retry_at_s = -math.inf

    def find_channel(self, member: str) -> ConnectionChannel | None:
        """Return the channel to a member, or None if the hub was unreachable less than a second ago."""
        channel = self._channels.get(member)
        if channel and not channel.ended.done():
            return channel
        if not self.is_reachable:
            return None
        channel = RemoteChannel(self._address, Introduction(Kind.READER, member.encode(), self._token), self._requests)
        self._channels[member] = channel
        dial = asyncio.create_task(self._dial(channel))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)
        return channel

    @property
    def is_reachable(self) -> bool:
        """Whether no dial has failed within the last second."""
        return asyncio.get_running_loop().time() >= self._retry_at_s

    async def stop(self) -> None:
        """End all connections."""
        channels = list(self._channels.values())
        for channel in channels:
            channel.end()
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        await asyncio.gather(*(channel.ended for channel in channels))

    async def _dial(self, channel: RemoteChannel) -> None:
        loop = asyncio.get_running_loop()
        try:
            await channel.dial()
        except OSError as error:
            if loop.time() >= self._retry_at_s:
                _logger.warning("the hub at %s:%d cannot be reached: %r", self._address.host, self._address.port, error)
            self._retry_at_s = loop.time() + _RETRY_S
