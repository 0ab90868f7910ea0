"""One environment of a member: its chunks, which outlive invocations, and how long an invocation lasts."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from typing import Any

from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.core.errors import InvalidSettingError
from burstcache.core.messages.pool import HubAddress, MemberState
from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.core.pool.stay import ONE_BURST_MS, Stay
from burstcache.pool.copying import Copying
from burstcache.pool.frames import Kind
from burstcache.pool.link import request_numbers
from burstcache.pool.member import MemberConnection, room
from burstcache.pool.proof import Introduction
from burstcache.pool.remote_hub import Address, RemoteLink
from burstcache.pool.tls import member_tls

_DIAL_LIMIT_S = 3.0  # a hub that is gone does not refuse: its address may be nobody's
_FAREWELL_LIMIT_S = 1.0
_AWAITED_LIMIT_MS = 1000.0  # what the hub wants follows on its welcome
_STALLED_S = 15.0  # a hub that neither sends nor takes a byte of what is under way is gone; copies begin within 10 s
_LOOK_MS = 10.0  # how often to look whether that has come, or whether a busy member is idle

_logger = logging.getLogger(__name__)


class MemberEnvironment:
    """Serves hubs, one invocation after another. All invocations belong to one event loop.

    Args:
        store: Where chunks are kept.
        stay: What it costs to stay and to leave.
        clock: Time.
        demands_tls: Whether a hub without a certificate is refused.
        init_s: How long the environment has taken to begin, which is billed with its first invocation [s].
    """

    def __init__(
        self, store: ChunkStore, stay: Stay, clock: Clock, *, demands_tls: bool = True, init_s: float = 0.0
    ) -> None:
        self._store = store
        self._stay = stay
        self._clock = clock
        self._demands_tls = demands_tls
        self._init_s = init_s
        self._id = secrets.token_hex(8)
        self._born_us = clock.now_us()
        self._served = 0
        self._connections: set[MemberConnection] = set()
        self._moved: dict[MemberConnection, tuple[tuple[int, ...], float]] = {}  # what was under way, and since when
        self._dials: set[asyncio.Task[bool]] = set()
        self._retired = asyncio.Event()  # a copy has everything
        self._is_first = True  # no request of this invocation has arrived
        self._idle_since = self._answered_at = instant(clock)
        self._stayed_ms: float | None = None  # of the present gap, inf: all of it; None: not known

    def state(self, began_s: float) -> MemberState:
        """Return what there is, at the end of an invocation that began then [s of the clock]."""
        init_s, self._init_s = self._init_s, 0.0
        return {
            "environment": self._id,
            "born_us": self._born_us,
            "chunks": len(self._store),
            "stored_bytes": self._store.stored_bytes,
            "served": self._served,
            "billed_ms": math.ceil((self._clock.monotonic_s() - began_s + init_s) * 1000),
        }

    async def serve(self, name: str, hub: HubAddress, *, until_s: float, is_peer: bool = False) -> None:
        """Serve a hub, and what others it names, until staying no longer pays; then return, after a BYE to each.

        Args:
            name: The member's.
            hub: Which one; if it cannot be reached, nothing happens.
            until_s: When to return at the latest [s of the clock].
            is_peer: Whether another environment of the member runs, whose chunks this one is to have, too.

        Raises:
            InvalidSettingError: The hub has no certificate, and one is demanded.
        """
        self._is_first = True
        self._retired.clear()
        await self.dial(name, hub, is_peer=is_peer)
        self._idle_since = instant(self._clock)
        retired = asyncio.create_task(self._retired.wait())
        while self._connections and not retired.done() and (wait_s := self._wait_s(until_s)) > 0:
            ends = [connection.ended for connection in self._connections]
            changes: list[asyncio.Future[Any]] = [retired, *self._dials, *ends]
            await asyncio.wait(changes, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            self._connections = {connection for connection in self._connections if not connection.ended.done()}
        retired.cancel()
        for dial in self._dials:
            dial.cancel()
        await self._say_bye()

    async def dial(self, name: str, hub: HubAddress, *, is_peer: bool = False) -> bool:
        """Connect to a hub, and return whether it can be reached.

        Raises:
            InvalidSettingError: The hub has no certificate, and one is demanded.
        """
        if self._demands_tls and not hub["certificate"]:
            raise InvalidSettingError(f"the hub {hub['id']} has no certificate, and PoolTls is yes")
        tls = member_tls(hub["certificate"]) if hub["certificate"] else None
        token = bytes.fromhex(hub["token"])

        address = Address(hub["host"], hub["port"], tls)
        copying = None
        if is_peer:
            link = RemoteLink(address, Introduction(Kind.COPY, name.encode(), token), request_numbers())
            copying = Copying(self._store, link, room)
        made = MemberConnection(
            name,
            token,
            self._store,
            copying=copying,
            wake=hub["wake"],
            arrived=self._arrived,
            answered=self._answered,
            dial=lambda other: self._dial_too(name, other),
            retire=self._retired.set,
        )
        try:
            async with asyncio.timeout(_DIAL_LIMIT_S):
                await address.connect(made)
        except OSError as error:
            _logger.warning("the hub %s at %s:%d: %r", hub["id"], hub["host"], hub["port"], error)
            return False
        self._connections.add(made)
        return True

    def _dial_too(self, name: str, hub: HubAddress) -> asyncio.Task[bool]:
        dial = asyncio.create_task(self.dial(name, hub))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)
        return dial

    def _wait_s(self, until_s: float) -> float:
        """Return for how long to wait for more requests; 0 or less: return now."""
        left_s = until_s - self._clock.monotonic_s()
        limit_ms = self._stay.limit_ms()
        if self._dials or not all(connection.is_idle for connection in self._connections):
            self._idle_since = instant(self._clock)
            self._end_stalled()
            return min(left_s, max(limit_ms, _LOOK_MS) / 1000, _STALLED_S)
        self._moved.clear()
        idle_ms = seconds_since(self._clock, self._idle_since) * 1000
        if any(connection.is_awaited for connection in self._connections) and idle_ms < _AWAITED_LIMIT_MS:
            return min(left_s, _LOOK_MS / 1000)
        if not self._is_first:
            self._stayed_ms = idle_ms if idle_ms >= limit_ms else None if left_s <= 0 else math.inf
        return min(left_s, (limit_ms - idle_ms) / 1000)

    def _end_stalled(self) -> None:
        """End connections on which something is under way that has not moved for long: staying is paid for."""
        now_s, before = self._clock.monotonic_s(), self._moved
        self._moved = {}
        for connection in self._connections:
            if not connection.is_idle:
                under_way, since_s = before.get(connection, ((), now_s))
                if under_way != connection.under_way:
                    since_s = now_s
                elif now_s - since_s >= _STALLED_S:
                    connection.end()
                self._moved[connection] = connection.under_way, since_s

    async def _say_bye(self) -> None:
        for connection in self._connections:
            connection.leave(self._id)
        if self._connections:  # this environment sleeps as soon as it has answered, so what is sent has to be gone
            await asyncio.wait([connection.ended for connection in self._connections], timeout=_FAREWELL_LIMIT_S)
        for connection in self._connections:
            connection.transport.abort()
        self._connections = set()
        self._moved = {}

    def _arrived(self) -> None:
        gap_ms = seconds_since(self._clock, self._answered_at) * 1000
        if self._stayed_ms is not None and gap_ms >= ONE_BURST_MS:
            self._stay = self._stay.after(gap_ms, self._stayed_ms)
        self._stayed_ms = math.inf
        self._is_first = False

    def _answered(self) -> None:
        self._served += 1
        self._idle_since = self._answered_at = instant(self._clock)
