"""The way from a reader that members cannot dial to one member, through a hub that keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from burstcache.core.errors import FrameError
from burstcache.pool.connection import FrameConnection, Sink
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Asked

_AT_ONCE = 4  # requests of a reader that one member has: no more chunks wait for either
_IDLE_LIMIT_S = 300.0  # of a reader that may be frozen, or gone without a word: its connection takes memory
_OF_READERS = frozenset({Kind.GET, Kind.PUT, Kind.DELETE})
_OF_COPIES = _OF_READERS | {Kind.LIST, Kind.FETCH}


class _Request:
    """A request on its way to the member, and its answer on the way back."""

    def __init__(self, passage: Passage, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._passage = passage
        self._header = header
        self._name = name
        self._payload = payload or b""
        self._number = 0
        self._link: Asked | None = None
        self.is_passing = False

    def ask(self, link: Asked) -> None:
        """Ask the member."""
        header, payload = self._header, self._payload
        self._link, self._payload = link, b""
        self._number = link.ask(header.kind, self, self._name, payload, number=header.number, crc32c=header.crc32c)

    def cancel(self) -> None:
        """Take no answer."""
        if self._link:
            self._link.cancel(self._number)

    def place(self, request: int, header: Header) -> Sink | None:
        if self.is_passing:  # it was lost half way, and is answered again: what has passed cannot be taken back
            self._passage.end()
            return None
        self.is_passing = True
        self._passage.transport.write(header._replace(request=self._header.request, name_bytes=0).pack())
        return self._passage.pass_on

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        if not self.is_passing:
            self._passage.send(header.kind, self._header.request, number=header.number, crc32c=header.crc32c)
        self._passage.done(self._header.request)

    def failed(self, request: int) -> None:
        self._passage.end()


class Passage(FrameConnection):
    """A hub's end of a reader's connection to one member.

    What a member answers is passed on as it arrives. A chunk on its way to a member is received whole first: the
    member's connection is shared, and no reader may hold it up. Neither is a slow reader waited for, but its
    member gets no further request until it has taken what it asked for. When the member goes, or the reader asks for
    nothing for minutes, the connection ends.

    Args:
        find: Returns what the member is asked over; None: it is not there.
        kinds: What may be asked.
    """

    def __init__(self, find: Callable[[], Asked | None], kinds: frozenset[Kind] = _OF_READERS) -> None:
        super().__init__()
        self._find = find
        self._kinds = kinds
        self._waiting: dict[int, _Request] = {}
        self._asked: dict[int, _Request] = {}
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._idle = self._end_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.cancel()
        self._waiting.clear()
        for request in self._asked.values():
            request.cancel()
        self._asked.clear()

    def pause_writing(self) -> None:
        self._is_busy = True

    def resume_writing(self) -> None:
        self._is_busy = False
        self._go_on()

    def place(self, header: Header, name: bytes) -> memoryview:
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        self._idle.cancel()
        self._idle = self._end_later()
        number = header.request
        if header.kind is Kind.CANCEL:
            self._waiting.pop(number, None)
            if number in self._asked and not self._asked[number].is_passing:
                self._asked.pop(number).cancel()
                self._go_on()
        elif header.kind not in self._kinds or number in self._waiting or number in self._asked:
            raise FrameError(f"a reader does not send {header.kind.name} as its request {number}")
        else:
            self._waiting[number] = _Request(self, header, name, payload)
            self._go_on()

    def pass_on(self, part: memoryview) -> bool:
        """Pass a part of an answer on, and return whether its memory is free again."""
        self.transport.write(part)
        return not self.transport.get_write_buffer_size()

    def done(self, number: int) -> None:
        """Take note that a request is answered."""
        del self._asked[number]
        self._go_on()

    def _end_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(_IDLE_LIMIT_S, self.end)

    def _go_on(self) -> None:
        while self._waiting and not self._is_busy and len(self._asked) < _AT_ONCE:
            link = self._find()
            if not link:
                return self.end()
            number = next(iter(self._waiting))
            self._asked[number] = self._waiting.pop(number)
            self._asked[number].ask(link)
        if len(self._waiting) < _AT_ONCE:
            self.transport.resume_reading()
        else:  # what it sends next stays with it
            self.transport.pause_reading()


class CopyPassage(Passage):
    """A hub's end of the connection by which a copy takes over a member's chunks from its first environment.

    Args:
        find: Returns what the first environment is asked over; None: it is gone.
    """

    def __init__(self, find: Callable[[], Asked | None]) -> None:
        super().__init__(find, _OF_COPIES)
        self.is_done = False
        self.passed_bytes = 0

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        if header.kind is Kind.DONE:
            self.is_done = True
            self.send(Kind.STORED, header.request)
            self.transport.close()
        else:
            super().handle(header, name, payload)

    def pass_on(self, part: memoryview) -> bool:
        self.passed_bytes += len(part)
        return super().pass_on(part)
