"""A member that runs or sleeps: those who ask it for chunks need not know, since a request wakes it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator

from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.pool import Serve
from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.states import ASLEEP, WAKING, Action, Event, after
from burstcache.pool.connection import Place
from burstcache.pool.frames import Header, Kind
from burstcache.pool.link import Asker
from burstcache.pool.member_link import Host, MemberLink
from burstcache.pool.neighbours import ARRIVES_WITHIN_S

_SURE_S = 0.1  # after a sign of life; a member that leaves says BYE, so this is about those that cannot
_PONG_LIMIT_S = 1.0  # to invoke a member that runs after all would make a second one, without its chunks
_REST_S = 10.0  # after a wake that failed, a member gets no requests: to try again is paid for

_logger = logging.getLogger(__name__)


class _Request:
    """A request that outlives the connection over which it is sent."""

    def __init__(
        self, member: Member, own: int, kind: Kind, asker: Asker, name: bytes, payload: Buffer, number: int, crc32c: int
    ) -> None:
        self._member, self._own, self._asker = member, own, asker
        self._kind, self._name, self._payload, self._number, self._crc32c = kind, name, payload, number, crc32c
        self._link: MemberLink | None = None
        self._sent_as = 0
        self.is_repeated = False

    def send(self, link: MemberLink) -> None:
        """Send it."""
        self._link = link
        self._sent_as = link.ask(self._kind, self, self._name, self._payload, number=self._number, crc32c=self._crc32c)

    def cancel(self) -> None:
        """Take no answer."""
        if self._link:
            self._link.cancel(self._sent_as)

    def give_up(self) -> None:
        """Have it fail."""
        self._asker.failed(self._own)

    def place(self, request: int, header: Header) -> Place:
        return self._asker.place(self._own, header)

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        self._member.answered(self._own)
        self._asker.answered(self._own, header, payload)

    def failed(self, request: int) -> None:
        self._link = None
        self._member.lost(self._own)


class Member:
    """One member, by whatever connection it has. All methods belong to the hub's event loop.

    Args:
        name: The member's name, its tenant id.
        hub: Where it dials in.
        wake: Has the member of a name dial in, by an event for it; returns when it has returned, or another hub has it.
        numbers: Numbers of requests.
    """

    def __init__(
        self, name: str, hub: Host, wake: Callable[[str, Serve], Awaitable[bool]], numbers: Iterator[int]
    ) -> None:
        self._name, self._hub, self._have_woken, self._numbers = name, hub, wake, numbers
        self._reach = ASLEEP
        self._requests: dict[int, _Request] = {}  # all that are not answered
        self._waiting: dict[int, _Request] = {}  # those of them that are not sent
        self._limit: asyncio.TimerHandle | None = None
        self._call: asyncio.Task[None] | None = None
        self._rests_until_s = 0.0
        self._loop = asyncio.get_running_loop()

    @property
    def is_asleep(self) -> bool:
        """Whether it has no connection, and nobody has asked for one."""
        return self._reach == ASLEEP

    def ask(
        self, kind: Kind, asker: Asker, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request, now or when the member has woken up, and return its number.

        To delete something a member is not woken: nobody asks for it any more, so it is dropped in its turn.
        """
        own = next(self._numbers)
        if kind is Kind.DELETE and self.is_asleep:
            self._loop.call_soon(asker.answered, own, Header(Kind.MISSING, own), None)
            return own
        self._requests[own] = _Request(self, own, kind, asker, name, payload, number, crc32c)
        self._submit(own)
        return own

    def cancel(self, request: int) -> None:
        """Forget a GET, and free the place that its chunk was being received in."""
        self._waiting.pop(request, None)
        if what := self._requests.pop(request, None):
            what.cancel()

    def end(self) -> None:
        """End the connection, if there is one."""
        if link := self._hub.members.get(self._name):
            link.end()

    def connected(self, *, is_copy: bool) -> None:
        """Use a new connection from now on; `is_copy`: of another environment than the one that runs."""
        self._meet(Event.REPLACED if is_copy else Event.HEARD)

    def heard(self) -> None:
        """Note a sign of life."""
        if self._limit:
            self._meet(Event.HEARD)

    def gone(self) -> None:
        """Note that there is no connection any more."""
        self._meet(Event.GONE)

    def answered(self, request: int) -> None:
        """Note that a request is answered."""
        del self._requests[request]

    def lost(self, request: int) -> None:
        """Ask once more for what was not answered when its connection ended; the second time it fails."""
        if self._requests[request].is_repeated:
            self._requests.pop(request).give_up()
        else:
            self._requests[request].is_repeated = True
            self._submit(request)

    def stop(self) -> None:
        """Wait for nothing any more, and wake nobody."""
        self._rests_until_s = math.inf
        if self._call:
            self._call.cancel()
        self._forget_limit()
        self._give_up()

    def _submit(self, request: int) -> None:
        link = self._hub.members.get(self._name)
        if link and self._loop.time() - link.heard_s > _SURE_S:
            self._meet(Event.QUIET)
        self._waiting[request] = self._requests[request]
        self._meet(Event.REQUEST)

    def _meet(self, event: Event) -> None:
        """Do what an event in the present state means."""
        self._reach, action = after(self._reach, event)
        if event in (Event.HEARD, Event.SILENT, Event.GONE):
            self._forget_limit()
        match action:
            case Action.INVOKE:
                self._wake()
            case Action.PING:
                self._ping()
                self._limit = self._loop.call_later(_PONG_LIMIT_S, self._meet, Event.SILENT)
                self._send()
            case Action.SEND:
                self._send()
            case Action.GREET if self._waiting:
                self._send()
            case Action.GREET:  # nothing is wanted of it any more
                self._ping()
            case Action.GIVE_UP:
                if self._loop.time() >= self._rests_until_s:
                    self._rests_until_s = self._loop.time() + _REST_S
                if self._call:
                    self._call.cancel()
                self._give_up()
            case Action.HANG_UP:
                self.end()

    def _wake(self) -> None:
        if self._loop.time() < self._rests_until_s or self._is_expected():
            self._loop.call_soon(self._meet, Event.SILENT)
            return
        self._limit = self._loop.call_later(ARRIVES_WITHIN_S, self._meet, Event.SILENT)
        event = Serve(op="serve", hub=self._hub.address_for(self._name), peer=False)
        self._call = self._loop.create_task(self._wake_with(event))

    async def _wake_with(self, event: Serve) -> None:
        has_returned = True
        try:
            has_returned = await self._have_woken(self._name, event)
        except BurstcacheError as error:
            _logger.warning("member %s fails: %s", self._name, error)
        if has_returned and self._call is asyncio.current_task() and self._reach == WAKING:
            _logger.warning("member %s has ended before it was connected", self._name)
            self._meet(Event.SILENT)

    def _is_expected(self) -> bool:
        neighbours = self._hub.neighbours
        return neighbours is not None and neighbours.is_invoked(self._name)

    def _ping(self) -> None:
        if link := self._hub.members.get(self._name):
            link.send(Kind.PING, 0)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        link = self._hub.members[self._name]
        for what in waiting.values():
            what.send(link)

    def _give_up(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for request, what in waiting.items():
            del self._requests[request]
            what.give_up()

    def _forget_limit(self) -> None:
        if self._limit:
            self._limit.cancel()
            self._limit = None
