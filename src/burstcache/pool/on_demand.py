"""Members on demand: a request starts its member if needed, transparently to the caller."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator

from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.pool import ServeChunks
from burstcache.core.pool.chunk_store import Buffer
from burstcache.core.pool.states import ASLEEP, WAKING, Action, Event, after
from burstcache.pool.channel import Caller
from burstcache.pool.connection import Place
from burstcache.pool.frames import Header, Kind
from burstcache.pool.member_channel import Host, MemberChannel
from burstcache.pool.peers import ARRIVES_WITHIN_S

_TRUSTED_S = 0.1  # after a member's last frame. Members that leave send BYE, so this limit only affects lost members
_PONG_LIMIT_S = 1.0  # invoking a member that still runs would create a second environment, without its chunks
_BACKOFF_S = 10.0  # pause after a failed start, since each attempt is billed

_logger = logging.getLogger(__name__)


class _Request:
    """A request that outlives the connection it was sent over."""

    def __init__(
        self,
        member: OnDemandMember,
        own: int,
        kind: Kind,
        caller: Caller,
        name: bytes,
        payload: Buffer,
        number: int,
        crc32c: int,
    ) -> None:
        self._member, self._own, self._caller = member, own, caller
        self._kind, self._name, self._payload, self._number, self._crc32c = kind, name, payload, number, crc32c
        self._channel: MemberChannel | None = None
        self._sent_as = 0
        self.is_retried = False

    def send(self, channel: MemberChannel) -> None:
        """Send the request over a connection."""
        self._channel = channel
        self._sent_as = channel.send_request(
            self._kind, self, self._name, self._payload, number=self._number, crc32c=self._crc32c
        )

    def cancel(self) -> None:
        """Cancel the request if it was sent."""
        if self._channel:
            self._channel.cancel_request(self._sent_as)

    def fail(self) -> None:
        """Report the failure to the caller."""
        self._caller.on_failure(self._own)

    def place(self, request: int, header: Header) -> Place:
        return self._caller.place(self._own, header)

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        self._member.complete(self._own)
        self._caller.on_answer(self._own, header, payload)

    def on_failure(self, request: int) -> None:
        self._channel = None
        self._member.retry(self._own)


class OnDemandMember:
    """A channel to one member that starts the member when needed. Call all methods on the hub's event loop.

    Args:
        name: The member's name, its tenant id.
        hub: The hub that the member dials.
        start: Makes the member dial in, given its name and an event. Returns True once the invocation has returned, or
            False if another hub has made the member dial.
        numbers: Request ids.
    """

    def __init__(
        self, name: str, hub: Host, start: Callable[[str, ServeChunks], Awaitable[bool]], numbers: Iterator[int]
    ) -> None:
        self._name, self._hub, self._start, self._numbers = name, hub, start, numbers
        self._reach = ASLEEP
        self._requests: dict[int, _Request] = {}  # all unanswered requests
        self._waiting: dict[int, _Request] = {}  # requests not sent yet
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None
        self._backs_off_until_s = 0.0
        self._loop = asyncio.get_running_loop()

    @property
    def is_asleep(self) -> bool:
        """Whether the member has no connection and is not being started."""
        return self._reach == ASLEEP

    def send_request(
        self, kind: Kind, caller: Caller, name: bytes, payload: Buffer = b"", *, number: int = 0, crc32c: int = 0
    ) -> int:
        """Send a request, now or once the member has started, and return its id.

        A DELETE does not start a member, since the chunk is no longer read and will be evicted.
        """
        own = next(self._numbers)
        if kind is Kind.DELETE and self.is_asleep:
            self._loop.call_soon(caller.on_answer, own, Header(Kind.MISSING, own), None)
            return own
        self._requests[own] = _Request(self, own, kind, caller, name, payload, number, crc32c)
        self._submit(own)
        return own

    def cancel_request(self, request: int) -> None:
        """Cancel a GET and release the memory into which its chunk was being received."""
        self._waiting.pop(request, None)
        if pending := self._requests.pop(request, None):
            pending.cancel()

    def end(self) -> None:
        """Abort the connection, if there is one."""
        if channel := self._hub.members.get(self._name):
            channel.end()

    def on_connected(self, *, is_replica: bool) -> None:
        """Switch to a new connection.

        Args:
            is_replica: Whether the member's earlier environment is still running.
        """
        self._process(Event.REPLACED if is_replica else Event.HEARD)

    def on_activity(self) -> None:
        """Record that the member has sent a frame."""
        if self._timer:
            self._process(Event.HEARD)

    def on_disconnected(self) -> None:
        """Handle the loss of the connection."""
        self._process(Event.GONE)

    def complete(self, request: int) -> None:
        """Remove an answered request."""
        del self._requests[request]

    def retry(self, request: int) -> None:
        """Retry a request that lost its connection before the response. Fail it if this happens a second time."""
        if self._requests[request].is_retried:
            self._requests.pop(request).fail()
        else:
            self._requests[request].is_retried = True
            self._submit(request)

    def stop(self) -> None:
        """Fail all unsent requests, and never start the member again."""
        self._backs_off_until_s = math.inf
        if self._starting:
            self._starting.cancel()
        self._cancel_timer()
        self._fail_waiting()

    def _submit(self, request: int) -> None:
        channel = self._hub.members.get(self._name)
        if channel and self._loop.time() - channel.active_at_s > _TRUSTED_S:
            self._process(Event.QUIET)
        self._waiting[request] = self._requests[request]
        self._process(Event.REQUEST)

    def _process(self, event: Event) -> None:
        """Enter the next state and perform its action."""
        self._reach, action = after(self._reach, event)
        if event in (Event.HEARD, Event.SILENT, Event.GONE):
            self._cancel_timer()
        match action:
            case Action.INVOKE:
                self._begin_start()
            case Action.PING:
                self._ping()
                self._timer = self._loop.call_later(_PONG_LIMIT_S, self._process, Event.SILENT)
                self._send()
            case Action.SEND:
                self._send()
            case Action.GREET if self._waiting:
                self._send()
            case Action.GREET:  # all requests were cancelled meanwhile
                self._ping()
            case Action.GIVE_UP:
                if self._loop.time() >= self._backs_off_until_s:
                    self._backs_off_until_s = self._loop.time() + _BACKOFF_S
                if self._starting:
                    self._starting.cancel()
                self._fail_waiting()
            case Action.HANG_UP:
                self.end()

    def _begin_start(self) -> None:
        if self._loop.time() < self._backs_off_until_s or self._is_expected():
            self._loop.call_soon(self._process, Event.SILENT)
            return
        self._timer = self._loop.call_later(ARRIVES_WITHIN_S, self._process, Event.SILENT)
        event = ServeChunks(op="serve", hub=self._hub.address_for(self._name), peer=False)
        self._starting = self._loop.create_task(self._start_with(event))

    async def _start_with(self, event: ServeChunks) -> None:
        has_returned = True
        try:
            has_returned = await self._start(self._name, event)
        except BurstcacheError as error:
            _logger.warning("member %s fails: %s", self._name, error)
        if has_returned and self._starting is asyncio.current_task() and self._reach == WAKING:
            _logger.warning("member %s has ended before it was connected", self._name)
            self._process(Event.SILENT)

    def _is_expected(self) -> bool:
        peers = self._hub.peers
        return peers is not None and peers.is_invoked(self._name)

    def _ping(self) -> None:
        if channel := self._hub.members.get(self._name):
            channel.send(Kind.PING, 0)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        channel = self._hub.members[self._name]
        for request in waiting.values():
            request.send(channel)

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for number, request in waiting.items():
            del self._requests[number]
            request.fail()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
