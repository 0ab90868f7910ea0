"""A connection over which one member is asked for chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from burstcache.core.pool.chunk_store import Buffer
from burstcache.pool.connection import FrameConnection, Place
from burstcache.pool.frames import Header, Kind


class Asker(Protocol):
    """Who asks members for something and is called back, once per request unless that is cancelled."""

    def place(self, request: int, header: Header) -> Place:
        """Return where the chunk that begins to arrive belongs."""

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        """Take an answer."""

    def failed(self, request: int) -> None:
        """Take note that the member is gone."""


class Told:
    """Asks for something without a payload; the future is whether it was answered by this kind of frame."""

    def __init__(self, kind: Kind) -> None:
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._kind = kind

    def place(self, request: int, header: Header) -> None:
        return None

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        self._settle(header.kind is self._kind)

    def failed(self, request: int) -> None:
        self._settle(False)

    def _settle(self, answer: bool) -> None:
        if not self.answer.done():  # else what has asked was cancelled
            self.answer.set_result(answer)


class Asked(Protocol):
    """What a member is asked over: a connection, or what brings one about."""

    def ask(
        self, kind: Kind, asker: Asker, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request and return its number."""

    def cancel(self, request: int) -> None:
        """Forget a GET, and free the place that its chunk was being received in."""

    def end(self) -> None:
        """End the connection at once: it has been silent for too long."""


class Links(Protocol):
    """A hub, as those that ask members see it."""

    def link(self, member: str) -> Asked | None:
        """Return what a member is asked over; None: it is not there."""


def request_numbers() -> Iterator[int]:
    """Yield numbers for requests, of which no two in flight are equal."""
    while True:
        yield from range(1, 1 << 32)


class Link(FrameConnection):
    """The end of a connection that asks; whom it asks is the other side's matter.

    Args:
        requests: Numbers of requests, shared by all links of one asker.
    """

    def __init__(self, requests: Iterator[int]) -> None:
        super().__init__()
        self._requests = requests
        self._askers: dict[int, Asker] = {}
        self._receiving = 0

    def ask(
        self, kind: Kind, asker: Asker, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request and return its number."""
        request = next(self._requests)
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

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.fail_all()

    def fail_all(self) -> None:
        """Tell all that were promised an answer that there is none."""
        askers, self._askers = self._askers, {}
        for request, asker in askers.items():
            asker.failed(request)

    def place(self, header: Header, name: bytes) -> Place:
        self._receiving = header.request
        asker = self._askers.get(header.request)
        return asker.place(header.request, header) if asker else None

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._receiving = 0
        if asker := self._askers.pop(header.request, None):
            asker.answered(header.request, header, payload)
