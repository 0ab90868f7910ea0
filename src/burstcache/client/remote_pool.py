"""The pool of a stack, with its hub on Fargate: for programs that its members cannot dial."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import cast

from burstcache.access import ExpressAccess
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.adapters.functions import invoke_by_name
from burstcache.client.stack_pool import READ_LIMIT_S, what_pays_within_s
from burstcache.core.messages.pool_control import HubTotals, KnownHub, Leave, PoolPlan, Reader
from burstcache.logs import logger
from burstcache.pool.heartbeat import Control, Seen, in_turn, redundancies_of
from burstcache.pool.link import Link
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.reader import PoolReader
from burstcache.pool.remote_hub import Address, RemoteHub
from burstcache.pool.tls import member_tls
from burstcache.settings.pool import PoolAccess

_LOST_REPORT_S = 10.0  # between two reports while a hub is needed and none is reached: another one may be there
_LOOK_EVERY_S = 1.0
_NEW_AFTER_S = 120.0  # pool control adds up what a reader has seen that is silent, and then it must not report it again


@contextlib.asynccontextmanager
async def open_remote_pool(
    access: PoolAccess, worth: ExpressAccess, clients: Clients, clock: Clock
) -> AsyncIterator[OpenPool]:
    """Open the pool of a stack through its hub, which starts if it does not run; meanwhile nothing is in the pool.

    Args:
        access: The pool's functions.
        worth: What a saved wait is worth, and the region whose prices count.
        clients: Reaches Lambda.
        clock: What says whether the program was frozen.

    Raises:
        ServiceError: Lambda refuses, or cannot be asked.
        FunctionFailedError: Pool control fails, or the stack has no such hub.
    """
    seen = Seen(is_asked=True)  # the first read opens it
    way = _Way(Reports(invoke_by_name(clients.functions, access.control_function_name), seen, clock))
    try:
        await way.report()
        pays_within_s = what_pays_within_s(access, worth, redundancies_of(way.plan)[0])
        following = asyncio.create_task(way.run())
        try:
            yield OpenPool(way.reader, lambda: redundancies_of(way.plan), seen, pays_within_s)
        finally:
            following.cancel()
            await way.leave()
    finally:
        await way.stop()


class Reports:
    """A reader's reports to pool control.

    A program that was frozen goes on under another id: what it reported before has been added up.

    Args:
        control: Invokes pool control with a payload and returns its answer; it may block its thread.
        seen: What the reader sees.
        clock: What says whether the program was frozen.
    """

    def __init__(self, control: Control, seen: Seen, clock: Clock) -> None:
        self._control = in_turn(control)
        self._seen = seen
        self._clock = clock
        self._id = secrets.token_hex(8)
        self._base = self._last = seen.totals()
        self._at = instant(clock)

    @property
    def are_wanted(self) -> bool:
        """Whether readers asked for something since the last report."""
        return self._seen.is_asked

    def report(self) -> PoolPlan:
        """Report once, and return the plan.

        Raises:
            ServiceError: Lambda refuses, or cannot be asked.
            FunctionFailedError: Pool control fails.
        """
        now, totals = instant(self._clock), self._seen.totals()
        if seconds_since(self._clock, self._at) > _NEW_AFTER_S:
            self._id, self._base = secrets.token_hex(8), self._last
        is_reading, self._seen.is_asked = self._seen.is_asked, False
        asked = Reader(op="reader", id=self._id, totals=_since(self._base, totals), is_reading=is_reading)
        try:
            plan = self._control(asked)
        except Exception:
            self._seen.is_asked = self._seen.is_asked or is_reading
            raise
        self._at, self._last = now, totals
        return cast(PoolPlan, plan)

    def leave(self) -> None:
        """Say that the reader ends.

        Raises:
            BurstcacheError: Pool control does not take note.
        """
        self._control(Leave(op="leave", id=self._id, totals=_since(self._base, self._seen.totals())))


class _Way:
    """The way to members through the hub of the newest plan."""

    def __init__(self, reports: Reports) -> None:
        self.reader = PoolReader(self, (), READ_LIMIT_S)
        self.plan: PoolPlan
        self._reports = reports
        self._hub: RemoteHub | None = None
        self._known: KnownHub | None = None

    def link(self, member: str) -> Link | None:
        """Return what a member is asked over; None: there is no hub."""
        return self._hub.link(member) if self._hub else None

    async def report(self) -> None:
        """Report, and follow the plan.

        Raises:
            BurstcacheError: Pool control does not answer; the last plan holds.
        """
        self.plan = await asyncio.to_thread(self._reports.report)
        known = next(iter(self.plan["hubs"]), None)
        if known != self._known:
            await self.stop()
            self._known, self._hub = known, _remote(known) if known else None
        self.reader.members = tuple(self.plan["members"]) if known else ()

    async def run(self) -> None:
        """Report for as long as the pool is open, sooner if a hub is needed and there is none."""
        loop = asyncio.get_running_loop()
        reported_at_s = loop.time()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if loop.time() < reported_at_s + (_LOST_REPORT_S if self._lacks_hub else self.plan["report_s"]):
                continue
            reported_at_s = loop.time()
            try:
                await self.report()
            except Exception as error:  # whatever it is, there is no other to report
                logger().warning("pool control does not answer, the last plan holds", reason=repr(error))

    @property
    def _lacks_hub(self) -> bool:
        if self._hub:
            return not self._hub.is_reachable
        return bool(self.plan["members"]) and self._reports.are_wanted  # without members the stack is paused

    async def leave(self) -> None:
        """Say that the reader ends; if that fails, pool control finds out by itself."""
        try:
            await asyncio.to_thread(self._reports.leave)
        except Exception as error:
            logger().warning("pool control does not answer", reason=repr(error))

    async def stop(self) -> None:
        """End all connections."""
        hub, self._hub, self._known = self._hub, None, None
        if hub:
            await hub.stop()


def _remote(hub: KnownHub) -> RemoteHub:
    tls = member_tls(hub["certificate"]) if hub["certificate"] else None
    return RemoteHub(Address(hub["host"], hub["port"], tls), bytes.fromhex(hub["token"]))


def _since(base: HubTotals, totals: HubTotals) -> HubTotals:
    return cast(HubTotals, {name: count - base[name] for name, count in totals.items()})  # type: ignore[literal-required]
