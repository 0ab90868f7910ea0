"""The peers of a hub: other hubs of the same pool.

A hub reaches a running member through its peers, which make the member dial the requesting hub as well. Only a member's
owner, the first hub by rendezvous hashing, invokes the member if it is not running. Two simultaneous invocations would
create two environments, one of them empty. A new hub is not in its peers' plans yet, so its requests carry its address.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from functools import partial

from burstcache.core.errors import FrameError
from burstcache.core.messages.pool import HubAddress, MemberState, ServeChunks
from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.placement import holders
from burstcache.pool.channel import Channel, Notification, request_numbers
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind
from burstcache.pool.handshake import Introduction
from burstcache.pool.invocations import Invocations
from burstcache.pool.member import hub_address
from burstcache.pool.remote_hub import Address, RemoteChannel

IF_RUNNING, START_IF_NEEDED = 0, 1  # `number` of a DIAL: dial only if running or being invoked, or start if needed
_LIMIT_S = 2.0  # for a peer's PONG; a member that has to be started first may take longer
ARRIVES_WITHIN_S = 10.0  # longest start of an environment
_SILENT_S = 30.0  # how long to skip a peer that sent no PONG
_MAX_ADDRESS_BYTES = 16 * 1024

_logger = logging.getLogger(__name__)


class Peers:
    """One hub's view of the other hubs in the pool.

    Args:
        id_: This hub's id.
        invocations: This hub's invocations of members.
    """

    def __init__(self, id_: str, invocations: Invocations) -> None:
        self._id = id_
        self._invocations = invocations
        self._planned: dict[str, KnownHub] = {}
        self._met: dict[str, KnownHub] = {}  # connected hubs that have sent a request since the last plan
        self._silent_until_s: dict[str, float] = {}
        self._expected: dict[str, asyncio.Task[MemberState]] = {}  # invoked members that have not dialled in yet
        self._channels: dict[str, RemoteChannel] = {}
        self._requests = request_numbers()
        self._accepted: set[str] = set()  # members that a peer wants this hub to start

    def apply_plan(self, hubs: Iterable[KnownHub]) -> None:
        """Replace the known hubs with a plan's hubs."""
        self._planned = {hub["id"]: hub for hub in hubs if hub["id"] != self._id}
        self._met.clear()  # a hub that is still missing from the plan will send another request
        for id_ in self._channels.keys() - self._planned.keys():
            self._channels.pop(id_).end()

    def meet(self, hub: HubAddress, end: FrameConnection) -> None:
        """Remember the address of a hub that sent a request, until its connection ends or the next plan arrives."""
        id_ = hub["id"]
        self._silent_until_s.pop(id_, None)
        if id_ == self._id or id_ in self._met:
            return
        self._met[id_] = hub
        end.ended.add_done_callback(lambda _: self._met.pop(id_, None))

    def is_owner(self, member: str) -> bool:
        """Whether this hub is a member's owner, and therefore invokes the member."""
        return self._owner(member) == self._id

    def accept_start(self, member: str) -> None:
        """Make this hub a member's owner for the member's next start, at a peer's request."""
        self._accepted.add(member)

    def is_invoked(self, member: str) -> bool:
        """Whether this hub has invoked a member that has not dialled in yet."""
        return member in self._expected

    def on_arrival(self, member: str) -> None:
        """Record that a member has dialled this hub."""
        self._expected.pop(member, None)

    async def wait_idle(self, member: str) -> None:
        """Wait up to 2 s until this hub's invocations of a member have returned."""
        await self._invocations.wait_idle(member)

    async def start_member(self, member: str, event: ServeChunks) -> bool:
        """Make a member dial this hub, through a peer that runs or owns the member, or else by an invocation.

        Returns:
            True once this hub's invocation has returned, or False as soon as a peer has made the member dial.

        Raises:
            BurstcacheError: The member cannot be invoked, or fails.
        """
        owner = self._id if member in self._accepted else self._owner(member)
        self._accepted.discard(member)
        payload = json.dumps(event["hub"]).encode()
        requests = [
            self._send_request(hub, Kind.DIAL, member, payload, START_IF_NEEDED if id_ == owner else IF_RUNNING)
            for id_, hub in self._known().items()
        ]
        if any(await asyncio.gather(*requests)):
            return False
        await self.wait_idle(member)
        self._expected[member] = invocation = self._invocations.begin(member, event)
        invocation.add_done_callback(partial(self._on_returned, member))
        await asyncio.wait((invocation,))  # if this caller is cancelled, the invocation continues
        invocation.result()
        return True

    def _on_returned(self, member: str, invocation: asyncio.Task[MemberState]) -> None:
        if self._expected.get(member) is invocation:  # otherwise a newer invocation is expected
            self.on_arrival(member)

    async def hand_over_write(self, member: str) -> bool:
        """Notify a member's owner of a write to the member. Return True once the owner has acknowledged."""
        hub = self._known().get(self._owner(member))
        return hub is not None and await self._send_request(hub, Kind.WRITTEN, member, b"", 0)

    async def stop(self) -> None:
        """End all connections to peers."""
        channels = list(self._channels.values())
        for channel in channels:
            channel.end()
        await asyncio.gather(*(channel.ended for channel in channels))

    def _owner(self, member: str) -> str:
        return holders(member.encode(), [self._id, *self._known()], 1)[0]

    def _known(self) -> dict[str, KnownHub]:
        now_s = self._now_s()
        hubs = self._met | self._planned
        return {id_: hub for id_, hub in hubs.items() if now_s >= self._silent_until_s.get(id_, 0.0)}

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _send_request(self, hub: KnownHub, kind: Kind, member: str, payload: bytes, number: int) -> bool:
        """Send a request to a peer. Return True if the peer has performed the request."""
        done, alive = Notification(Kind.STORED), Notification(Kind.PONG)
        try:
            async with asyncio.timeout(_LIMIT_S):
                channel = await self._channel(hub)
                channel.send_request(kind, done, member.encode(), payload, number=number)
                channel.send_request(Kind.PING, alive, b"")
                await alive.answer
        except OSError as error:
            if hub["id"] in self._known():
                _logger.warning("the hub %s does not answer: %r", hub["id"], error)
            self._silent_until_s[hub["id"]] = self._now_s() + _SILENT_S
            if silent := self._channels.pop(hub["id"], None):
                silent.end()
            return False
        return await done.answer

    async def _channel(self, hub: KnownHub) -> RemoteChannel:
        channel = self._channels.get(hub["id"])
        if channel and not channel.ended.done():
            return channel
        introduction = Introduction(Kind.PEER, self._id.encode(), bytes.fromhex(hub["token"]))
        channel = RemoteChannel(Address.of(hub), introduction, self._requests)
        self._channels[hub["id"]] = channel
        await channel.dial()
        return channel


class PeerEnd(FrameConnection):
    """A hub's end of the connection from a peer.

    Args:
        peers: The other hubs.
        running: Returns the channel to a member that is running or being invoked, or None.
        start: Returns the channel to a member, which is started on demand.
        on_write: Called with the name of a member that was written to.
    """

    def __init__(
        self,
        peers: Peers,
        *,
        running: Callable[[str], Channel | None],
        start: Callable[[str], Channel | None],
        on_write: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._peers = peers
        self._running, self._start = running, start
        self._answers: set[asyncio.Task[None]] = set()
        self._on_write = on_write

    def place(self, header: Header, name: bytes) -> memoryview:
        if header.payload_bytes > _MAX_ADDRESS_BYTES:
            raise FrameError(
                f"an address of {header.payload_bytes:,} bytes; at most {_MAX_ADDRESS_BYTES:,} are accepted"
            )
        return memoryview(bytearray(header.payload_bytes))

    def handle(self, header: Header, name: bytes, payload: memoryview | None) -> None:
        member = name.decode(errors="replace")
        match header.kind:
            case Kind.PING:
                self.send(Kind.PONG, header.request)
            case Kind.WRITTEN:
                self._on_write(member)
                self.send(Kind.STORED, header.request)
            case Kind.DIAL if payload:
                self._peers.meet(hub_address(bytes(payload)), self)
                channel = self._start(member) if header.number == START_IF_NEEDED else self._running(member)
                if channel:
                    channel.send_request(Kind.DIAL, _ForwardedAnswer(self, header.request), b"", payload)
                else:
                    answer = asyncio.ensure_future(self._decline(member, header.request))
                    self._answers.add(answer)
                    answer.add_done_callback(self._answers.discard)
            case _:
                raise FrameError(f"a hub does not send {header.kind.name}")

    async def _decline(self, member: str, request: int) -> None:
        """Respond MISSING once the member's environment has returned, so that the peer may invoke the member."""
        await self._peers.wait_idle(member)
        _ForwardedAnswer(self, request).on_failure(0)


class _ForwardedAnswer:
    """A request to the member, with a response that is forwarded to the peer."""

    def __init__(self, end: PeerEnd, request: int) -> None:
        self._end = end
        self._request = request

    def place(self, request: int, header: Header) -> None:
        return None

    def on_answer(self, request: int, header: Header, payload: memoryview | None) -> None:
        if not self._end.ended.done():
            self._end.send(header.kind, self._request)

    def on_failure(self, request: int) -> None:
        if not self._end.ended.done():
            self._end.send(Kind.MISSING, self._request)
