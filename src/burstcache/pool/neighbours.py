"""Several hubs, one pool: a member that one of them has connected gets the addresses of others that need it.

A member that sleeps is invoked by one hub alone, the first by rendezvous hashing: two invocations at once would make
two environments, of which one is empty. A hub that has just begun is not in the plans of the others yet, but what it
asks them for says where it is.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from functools import partial

from burstcache.core.errors import FrameError
from burstcache.core.messages.pool import HubAddress, MemberState, Serve
from burstcache.core.messages.pool_control import KnownHub
from burstcache.core.pool.placement import holders
from burstcache.pool.connection import FrameConnection
from burstcache.pool.frames import Header, Kind
from burstcache.pool.invocations import Invocations
from burstcache.pool.link import Asked, Told, request_numbers
from burstcache.pool.member import hub_address
from burstcache.pool.proof import Introduction
from burstcache.pool.remote_hub import Address, RemoteLink
from burstcache.pool.tls import member_tls

IF_AWAKE, IN_ANY_CASE = 0, 1  # numbers of a DIAL: only if the member runs or is invoked, or wake it for that
_LIMIT_S = 2.0  # of a neighbour's sign of life; a member that has to be woken first may take longer
ARRIVES_WITHIN_S = 10.0  # as long as an environment may take to begin
_SILENT_S = 30.0  # for which a neighbour that gave none is not asked
_MAX_ADDRESS_BYTES = 16 * 1024

_logger = logging.getLogger(__name__)


class Neighbours:
    """The other hubs, as one hub sees them.

    Args:
        id_: The hub's own.
        invocations: Those of members that the hub has begun.
    """

    def __init__(self, id_: str, invocations: Invocations) -> None:
        self._id = id_
        self._invocations = invocations
        self._planned: dict[str, KnownHub] = {}
        self._met: dict[str, KnownHub] = {}  # hubs that have asked this one since the plan, and are connected
        self._silent_until_s: dict[str, float] = {}
        self._expected: dict[str, asyncio.Task[MemberState]] = {}  # members that are to arrive here
        self._links: dict[str, RemoteLink] = {}
        self._requests = request_numbers()
        self._duties: set[str] = set()  # members that a neighbour wants this hub to wake

    def follow(self, hubs: Iterable[KnownHub]) -> None:
        """Note the hubs of a plan."""
        self._planned = {hub["id"]: hub for hub in hubs if hub["id"] != self._id}
        self._met.clear()  # one that is there, but not in the plan yet, will ask again
        for id_ in self._links.keys() - self._planned.keys():
            self._links.pop(id_).end()

    def meet(self, hub: HubAddress, end: FrameConnection) -> None:
        """Note a hub that has asked this one, until its connection ends or the next plan comes."""
        id_ = hub["id"]
        self._silent_until_s.pop(id_, None)
        if id_ == self._id or id_ in self._met:
            return
        self._met[id_] = hub
        end.ended.add_done_callback(lambda _: self._met.pop(id_, None))

    def is_first(self, member: str) -> bool:
        """Whether this hub is the one that invokes a member."""
        return self._first(member) == self._id

    def take_duty(self, member: str) -> None:
        """Invoke a member the next time, whatever this hub knows of others: one of them has asked for that."""
        self._duties.add(member)

    def is_invoked(self, member: str) -> bool:
        """Whether this hub has invoked a member that has still to arrive."""
        return member in self._expected

    def arrived(self, member: str) -> None:
        """Note that a member has dialled this hub."""
        self._expected.pop(member, None)

    async def returned(self, member: str) -> None:
        """Wait until no environment of a member is busy that this hub has invoked."""
        await self._invocations.returned(member)

    async def wake(self, member: str, event: Serve) -> bool:
        """Have a member dial this hub: by a neighbour that has it or has to wake it, else by an invocation.

        Returns:
            True if it was invoked, and has returned; False, earlier, if a neighbour has told it to dial.

        Raises:
            BurstcacheError: It cannot be invoked, or fails.
        """
        first = self._id if member in self._duties else self._first(member)
        self._duties.discard(member)
        payload = json.dumps(event["hub"]).encode()
        asked = [
            self._ask(hub, Kind.DIAL, member, payload, IN_ANY_CASE if id_ == first else IF_AWAKE)
            for id_, hub in self._known().items()
        ]
        if any(await asyncio.gather(*asked)):
            return False
        await self.returned(member)
        self._expected[member] = invocation = self._invocations.begin(member, event)
        invocation.add_done_callback(partial(self._returned_from, member))
        await asyncio.wait((invocation,))  # not the task itself, which goes on if nobody waits any more
        invocation.result()
        return True

    def _returned_from(self, member: str, invocation: asyncio.Task[MemberState]) -> None:
        if self._expected.get(member) is invocation:  # else another one is expected by now
            self.arrived(member)

    async def hand_over(self, member: str) -> bool:
        """Tell the hub that invokes a member that it was written to, and return whether it has taken note."""
        hub = self._known().get(self._first(member))
        return hub is not None and await self._ask(hub, Kind.WRITTEN, member, b"", 0)

    async def stop(self) -> None:
        """End all connections to other hubs."""
        links = list(self._links.values())
        for link in links:
            link.end()
        await asyncio.gather(*(link.ended for link in links))

    def _first(self, member: str) -> str:
        return holders(member.encode(), [self._id, *self._known()], 1)[0]

    def _known(self) -> dict[str, KnownHub]:
        now_s = self._now_s()
        known = self._met | self._planned
        return {id_: hub for id_, hub in known.items() if now_s >= self._silent_until_s.get(id_, 0.0)}

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _ask(self, hub: KnownHub, kind: Kind, member: str, payload: bytes, number: int) -> bool:
        """Return whether a hub does what it is asked for."""
        told, there = Told(Kind.STORED), Told(Kind.PONG)
        try:
            async with asyncio.timeout(_LIMIT_S):
                link = await self._link(hub)
                link.ask(kind, told, member.encode(), payload, number=number)
                link.ask(Kind.PING, there, b"")
                await there.answer
        except OSError as error:
            if hub["id"] in self._known():
                _logger.warning("the hub %s does not answer: %r", hub["id"], error)
            self._silent_until_s[hub["id"]] = self._now_s() + _SILENT_S
            if silent := self._links.pop(hub["id"], None):
                silent.end()
            return False
        return await told.answer

    async def _link(self, hub: KnownHub) -> RemoteLink:
        link = self._links.get(hub["id"])
        if link and not link.ended.done():
            return link
        tls = member_tls(hub["certificate"]) if hub["certificate"] else None
        introduction = Introduction(Kind.NEIGHBOUR, self._id.encode(), bytes.fromhex(hub["token"]))
        link = RemoteLink(Address(hub["host"], hub["port"], tls), introduction, self._requests)
        self._links[hub["id"]] = link
        await link.dial()
        return link


class NeighbourEnd(FrameConnection):
    """A hub's end of the connection that another hub has made.

    Args:
        neighbours: The other hubs.
        awake: Returns what a member that runs, or is invoked, is asked over.
        waking: Returns what a member is asked over, and wakes it for that.
        written: Notes a member that was written to.
    """

    def __init__(
        self,
        neighbours: Neighbours,
        *,
        awake: Callable[[str], Asked | None],
        waking: Callable[[str], Asked | None],
        written: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._neighbours = neighbours
        self._awake, self._waking = awake, waking
        self._answers: set[asyncio.Task[None]] = set()
        self._written = written

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
                self._written(member)
                self.send(Kind.STORED, header.request)
            case Kind.DIAL if payload:
                self._neighbours.meet(hub_address(bytes(payload)), self)
                asked = self._waking(member) if header.number == IN_ANY_CASE else self._awake(member)
                if asked:
                    asked.ask(Kind.DIAL, _Answer(self, header.request), b"", payload)
                else:
                    answer = asyncio.ensure_future(self._leave_to_invoke(member, header.request))
                    self._answers.add(answer)
                    answer.add_done_callback(self._answers.discard)
            case _:
                raise FrameError(f"a hub does not send {header.kind.name}")

    async def _leave_to_invoke(self, member: str, request: int) -> None:
        """Have the other hub invoke a member, when its environment has returned."""
        await self._neighbours.returned(member)
        _Answer(self, request).failed(0)


class _Answer:
    """Passes on what a member says."""

    def __init__(self, end: NeighbourEnd, request: int) -> None:
        self._end = end
        self._request = request

    def place(self, request: int, header: Header) -> None:
        return None

    def answered(self, request: int, header: Header, payload: memoryview | None) -> None:
        if not self._end.ended.done():
            self._end.send(header.kind, self._request)

    def failed(self, request: int) -> None:
        if not self._end.ended.done():
            self._end.send(Kind.MISSING, self._request)
