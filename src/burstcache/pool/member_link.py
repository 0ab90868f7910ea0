"""A hub's end of the connection to one member."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from burstcache.core.messages.pool import HubAddress
from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Asker, Link
from burstcache.pool.neighbours import Neighbours


class Host(Protocol):
    """What connections of members, and what wakes these, need of their hub; its attributes are those of `Hub`."""

    members: dict[str, MemberLink]
    used: dict[str, str]
    written: set[str]
    neighbours: Neighbours | None

    def address_for(self, member: str) -> HubAddress:
        """Return what a member has to know to dial in, once."""

    def welcome(self, link: MemberLink) -> None:
        """Note a connection that is made."""

    def heard(self, link: MemberLink) -> None:
        """Note that something has arrived."""

    def forget(self, link: MemberLink) -> None:
        """Note that a connection is of no use any more."""


class MemberLink(Link):
    """A hub's end of the connection to one member."""

    def __init__(self, hub: Host, name: str, requests: Iterator[int], is_copy: bool) -> None:
        super().__init__(requests)
        self.name = name
        self.is_copy = is_copy
        self.heard_s = asyncio.get_running_loop().time()  # when something arrived last
        self._hub = hub

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hub.welcome(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.forget(self)
        super().connection_lost(exc)

    def ask(
        self, kind: Kind, asker: Asker, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        if kind is Kind.PUT and self._hub.members.get(self.name) is self:
            self._hub.written.add(self.name)
        return super().ask(kind, asker, name, payload, number=number, crc32c=crc32c)

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._hub.heard(self)
        if header.kind is Kind.BYE:
            self._hub.used[self.name] = name.decode(errors="replace")
            self._hub.forget(self)
            self.transport.close()
        super().handle(header, name, payload)
