"""The pool of a stack with a remote hub on Fargate, for programs that members cannot dial."""

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
from burstcache.client.pool_limits import READ_LIMIT_S, pool_pays_within_s
from burstcache.core.messages.pool_control import HubTotals, KnownHub, LeavePool, PoolPlan, ReportReader
from burstcache.logs import logger
from burstcache.pool.channel import ConnectionChannel
from burstcache.pool.heartbeat import Control, HubCounters, redundancies_of, send_last_report, serialized
from burstcache.pool.open_pool import OpenPool
from burstcache.pool.reader import PoolReader
from burstcache.pool.remote_hub import Address, RemoteHub
from burstcache.settings.pool import PoolAccess

_LOST_REPORT_S = 10.0  # report interval while a needed hub is missing, since another one may have started
_POLL_S = 1.0
# Pool control knows for a day which totals of a silent reader it has added up. Later it would add them up again.
_NEW_AFTER_S = 12 * 3600.0


@contextlib.asynccontextmanager
async def open_remote_pool(
    access: PoolAccess, worth: ExpressAccess, clients: Clients, clock: Clock
) -> AsyncIterator[OpenPool]:
    """Open the pool of a stack through its hub, which starts on demand. Until the hub runs, all reads miss.

    Args:
        access: The pool's functions.
        worth: Value of a saved wait for S3, and the pricing region.
        clients: AWS clients, for Lambda.
        clock: Detects that the program was frozen.

    Raises:
        ServiceError: Lambda rejects a call, or is unreachable.
        FunctionFailedError: Pool control fails, or the stack has no remote hub.
    """
    counters = HubCounters(has_demand=True)  # the first read opens the pool
    hub = _PlannedHub(HubReports(invoke_by_name(clients.functions, access.control_function_name), counters, clock))
    try:
        await hub.report()
        pays_within_s = pool_pays_within_s(access, worth, redundancies_of(hub.plan)[0])
        reports = asyncio.create_task(hub.run())
        try:
            yield OpenPool(hub.reader, lambda: redundancies_of(hub.plan), counters, pays_within_s)
        finally:
            reports.cancel()
            await hub.leave()
    finally:
        await hub.stop()


class HubReports:
    """A reader's reports to pool control.

    Reports are totals under one id, so a report that arrives without its response counts once. After a freeze of half
    a day the program continues under a new id: pool control may have forgotten what it has added up of the former one.

    Args:
        control: Invokes pool control with a payload, and returns its response. May block the calling thread.
        counters: The reader's counters.
        clock: Detects that the program was frozen.
    """

    def __init__(self, control: Control, counters: HubCounters, clock: Clock) -> None:
        self._control = serialized(control)
        self._counters = counters
        self._clock = clock
        self._id = secrets.token_hex(8)
        self._base = self._last = counters.totals()
        self._at = instant(clock)

    @property
    def has_demand(self) -> bool:
        """True if readers have requested slices since the last report."""
        return self._counters.has_demand

    def report(self) -> PoolPlan:
        """Report once, and return the plan.

        Raises:
            ServiceError: Lambda rejects a call, or is unreachable.
            FunctionFailedError: Pool control fails.
        """
        now, totals = instant(self._clock), self._counters.totals()
        if seconds_since(self._clock, self._at) > _NEW_AFTER_S:
            self._id, self._base, self._at = secrets.token_hex(8), self._last, now
        is_reading, self._counters.has_demand = self._counters.has_demand, False
        report = ReportReader(op="reader", id=self._id, totals=_since(self._base, totals), is_reading=is_reading)
        try:
            plan = self._control(report)
        except Exception:
            self._counters.has_demand = self._counters.has_demand or is_reading
            raise
        self._at, self._last = now, totals
        return cast(PoolPlan, plan)

    def leave(self) -> None:
        """Report that the reader is leaving.

        Raises:
            BurstcacheError: Pool control does not acknowledge the report.
        """
        self._control(LeavePool(op="leave", id=self._id, totals=_since(self._base, self._counters.totals())))


class _PlannedHub:
    """The hub in the latest plan, and a reader of its members.

    Attributes:
        reader: Reads and writes slices.
        plan: The latest plan.
    """

    def __init__(self, reports: HubReports) -> None:
        self.reader = PoolReader(self, (), READ_LIMIT_S)
        self.plan: PoolPlan
        self._reports = reports
        self._hub: RemoteHub | None = None
        self._known: KnownHub | None = None

    def find_channel(self, member: str) -> ConnectionChannel | None:
        """Return the channel to a member. None: the plan has no hub, or the hub is unreachable."""
        return self._hub.find_channel(member) if self._hub else None

    async def report(self) -> None:
        """Report, and apply the plan.

        Raises:
            BurstcacheError: Pool control does not respond. The last plan remains in effect.
        """
        self.plan = await asyncio.to_thread(self._reports.report)
        known = next(iter(self.plan["hubs"]), None)
        if known != self._known:
            await self.stop()
            self._known, self._hub = known, _remote_hub(known) if known else None
        self.reader.members = tuple(self.plan["members"]) if known else ()

    async def run(self) -> None:
        """Report periodically until cancelled, and more often while a needed hub is missing."""
        loop = asyncio.get_running_loop()
        reported_at_s = loop.time()
        while True:
            await asyncio.sleep(_POLL_S)
            if loop.time() < reported_at_s + (_LOST_REPORT_S if self._lacks_hub else self.plan["report_s"]):
                continue
            reported_at_s = loop.time()
            try:
                await self.report()
            except Exception as error:  # any error: nothing else would restart the reports
                logger().warning("pool control does not answer, the last plan holds", reason=repr(error))

    @property
    def _lacks_hub(self) -> bool:
        if self._hub:
            return not self._hub.is_reachable
        return bool(self.plan["members"]) and self._reports.has_demand  # no members: the stack is paused

    async def leave(self) -> None:
        """Report that the reader is leaving. If the report fails, pool control notices the silence."""
        await send_last_report(self._reports.leave)

    async def stop(self) -> None:
        """Close all connections."""
        hub, self._hub, self._known = self._hub, None, None
        if hub:
            await hub.stop()


def _remote_hub(hub: KnownHub) -> RemoteHub:
    return RemoteHub(Address.of(hub), bytes.fromhex(hub["token"]))


def _since(base: HubTotals, totals: HubTotals) -> HubTotals:
    return cast(HubTotals, {name: count - base[name] for name, count in totals.items()})  # type: ignore[literal-required]
