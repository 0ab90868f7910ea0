"""A member's execution environment, which keeps chunks across invocations and decides when to return."""

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
from burstcache.core.pool.keep_alive import ONE_BURST_MS, KeepAlive
from burstcache.pool.channel import request_numbers
from burstcache.pool.frames import Kind
from burstcache.pool.handshake import Introduction
from burstcache.pool.member import MemberConnection, room
from burstcache.pool.remote_hub import Address, RemoteChannel
from burstcache.pool.replica_sync import ReplicaSync

_DIAL_LIMIT_S = 3.0  # a dead hub's address may be unused, and then nothing refuses the connection
_FAREWELL_LIMIT_S = 1.0
_AWAITED_LIMIT_MS = 1000.0  # the hub's first request follows its WELCOME
_STALLED_S = 15.0  # a transfer that stalls for this long indicates a dead hub (a replica starts within 10 s)
_POLL_MS = 10.0  # how often to check for the hub's first request, and whether a busy member has become idle

_logger = logging.getLogger(__name__)


class MemberEnvironment:
    """An execution environment that serves hubs, one invocation after another, on one event loop.

    Args:
        store: The chunks.
        keep_alive: The cost model of staying idle versus returning.
        clock: The clock.
        demands_tls: Whether to reject a hub without a certificate.
        init_s: Duration of the environment's INIT phase, billed with its first invocation [s].
    """

    def __init__(
        self, store: ChunkStore, keep_alive: KeepAlive, clock: Clock, *, demands_tls: bool = True, init_s: float = 0.0
    ) -> None:
        self._store = store
        self._keep_alive = keep_alive
        self._clock = clock
        self._demands_tls = demands_tls
        self._init_s = init_s
        self._id = secrets.token_hex(8)
        self._born_us = clock.now_us()
        self._served = 0
        self._connections: set[MemberConnection] = set()
        self._progress: dict[MemberConnection, tuple[tuple[int, ...], float]] = {}  # progress, time of last change
        self._dials: set[asyncio.Task[bool]] = set()
        self._retired = asyncio.Event()  # set once a replica is complete
        self._is_first = True  # whether no request of this invocation has arrived yet
        self._idle_since = self._answered_at = instant(clock)
        self._stayed_ms: float | None = None  # idle time in the current gap; inf: the whole gap; None: unknown

    def state(self, began_s: float) -> MemberState:
        """Return the environment's state at the end of an invocation that began at `began_s` [s of the clock]."""
        init_s, self._init_s = self._init_s, 0.0
        return {
            "environment": self._id,
            "born_us": self._born_us,
            "chunks": len(self._store),
            "stored_bytes": self._store.stored_bytes,
            "served": self._served,
            "billed_ms": math.ceil((self._clock.monotonic_s() - began_s + init_s) * 1000),
        }

    async def serve(self, name: str, hub: HubAddress, *, until_s: float, is_replica: bool = False) -> None:
        """Serve a hub, and the hubs that it names, until staying no longer pays. Then send BYE to each hub and return.

        Args:
            name: The member's name.
            hub: The hub to dial. If it is unreachable, return immediately.
            until_s: Deadline of the invocation [s of the clock].
            is_replica: Whether to copy the chunks of the member's other running environment.

        Raises:
            InvalidSettingError: The hub has no certificate, but TLS is required.
        """
        self._is_first = True
        self._retired.clear()
        await self.dial(name, hub, is_replica=is_replica)
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

    async def dial(self, name: str, hub: HubAddress, *, is_replica: bool = False) -> bool:
        """Connect to a hub. Return False if it is unreachable.

        Raises:
            InvalidSettingError: The hub has no certificate, but TLS is required.
        """
        if self._demands_tls and not hub["certificate"]:
            raise InvalidSettingError(f"the hub {hub['id']} has no certificate, and PoolTls is yes")
        token = bytes.fromhex(hub["token"])
        address = Address.of(hub)
        sync = None
        if is_replica:
            channel = RemoteChannel(address, Introduction(Kind.REPLICA, name.encode(), token), request_numbers())
            sync = ReplicaSync(self._store, channel, room)
        connection = MemberConnection(
            name,
            token,
            self._store,
            sync=sync,
            wake=hub["wake"],
            on_arrival=self._on_arrival,
            on_answered=self._on_answered,
            dial=lambda other: self._dial_other(name, other),
            retire=self._retired.set,
        )
        try:
            async with asyncio.timeout(_DIAL_LIMIT_S):
                await address.connect(connection)
        except OSError as error:
            _logger.warning("the hub %s at %s:%d: %r", hub["id"], hub["host"], hub["port"], error)
            return False
        self._connections.add(connection)
        return True

    def _dial_other(self, name: str, hub: HubAddress) -> asyncio.Task[bool]:
        dial = asyncio.create_task(self.dial(name, hub))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)
        return dial

    def _wait_s(self, until_s: float) -> float:
        """Return the time to wait for more requests [s], or 0 or less if the invocation must end now."""
        left_s = until_s - self._clock.monotonic_s()
        limit_ms = self._keep_alive.limit_ms()
        if self._dials or not all(connection.is_idle for connection in self._connections):
            self._idle_since = instant(self._clock)
            self._end_stalled()
            return min(left_s, max(limit_ms, _POLL_MS) / 1000, _STALLED_S)
        self._progress.clear()
        idle_ms = seconds_since(self._clock, self._idle_since) * 1000
        if any(connection.is_awaited for connection in self._connections) and idle_ms < _AWAITED_LIMIT_MS:
            return min(left_s, _POLL_MS / 1000)
        if not self._is_first:
            self._stayed_ms = idle_ms if idle_ms >= limit_ms else None if left_s <= 0 else math.inf
        return min(left_s, (limit_ms - idle_ms) / 1000)

    def _end_stalled(self) -> None:
        """Abort busy connections that have stalled for `_STALLED_S`, since every millisecond of waiting is billed."""
        now_s, before = self._clock.monotonic_s(), self._progress
        self._progress = {}
        for connection in self._connections:
            if not connection.is_idle:
                progress, since_s = before.get(connection, ((), now_s))
                if progress != connection.progress:
                    since_s = now_s
                elif now_s - since_s >= _STALLED_S:
                    connection.end()
                self._progress[connection] = connection.progress, since_s

    async def _say_bye(self) -> None:
        for connection in self._connections:
            connection.leave(self._id)
        if self._connections:  # Lambda freezes the environment once the handler returns, so all data must be sent first
            await asyncio.wait([connection.ended for connection in self._connections], timeout=_FAREWELL_LIMIT_S)
        for connection in self._connections:
            connection.transport.abort()
        self._connections = set()
        self._progress = {}

    def _on_arrival(self) -> None:
        gap_ms = seconds_since(self._clock, self._answered_at) * 1000
        if self._stayed_ms is not None and gap_ms >= ONE_BURST_MS:
            self._keep_alive = self._keep_alive.after(gap_ms, self._stayed_ms)
        self._stayed_ms = math.inf
        self._is_first = False

    def _on_answered(self) -> None:
        self._served += 1
        self._idle_since = self._answered_at = instant(self._clock)
