"""A hub's channel to one member: the hub's end of the member's connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from burstcache.core.messages.pool import HubAddress
from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.channel import Caller, ConnectionChannel
from burstcache.pool.frames import Header, Kind
from burstcache.pool.peers import Peers


class Host(Protocol):
    """The part of `Hub` that member channels and on-demand members use."""

    members: dict[str, MemberChannel]
    written: set[str]
    peers: Peers | None

    def address_for(self, member: str) -> HubAddress:
        """Return the address and token with which a member can dial in once."""

    def attach(self, channel: MemberChannel) -> None:
        """Register a member's connection."""

    def on_activity(self, channel: MemberChannel) -> None:
        """Record that a member has sent a frame."""

    def detach(self, channel: MemberChannel, environment: str) -> None:
        """Remove a member's connection. `environment` is the name in its BYE, empty without one."""


class MemberChannel(ConnectionChannel):
    """A hub's end of the connection to one member.

    Attributes:
        name: The member's name.
        is_replica: Whether the environment is a replica.
        active_at_s: Time of the member's last frame [s of the loop].
    """

    def __init__(self, hub: Host, name: str, requests: Iterator[int], is_replica: bool) -> None:
        super().__init__(requests)
        self.name = name
        self.is_replica = is_replica
        self.active_at_s = asyncio.get_running_loop().time()
        self._hub = hub
        self._is_attached = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hub.attach(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._detach()
        super().connection_lost(exc)

    def send_request(
        self, kind: Kind, caller: Caller, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        if kind is Kind.PUT and self._hub.members.get(self.name) is self:
            self._hub.written.add(self.name)
        return super().send_request(kind, caller, name, payload, number=number, crc32c=crc32c)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._hub.on_activity(self)
        if header.kind is Kind.BYE:
            self._detach(name.decode(errors="replace"))
            self.transport.close()
        super().handle(header, name, payload)

    def _detach(self, environment: str = "") -> None:
        """Remove this connection from the hub, once: a BYE comes before the loss of the connection."""
        if self._is_attached:
            self._is_attached = False
            self._hub.detach(self, environment)
