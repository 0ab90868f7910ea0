"""A hub's heartbeat: periodic reports to pool control, which returns a plan for each report."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from burstcache.core.messages.pool_control import Coded, HubTotals, KnownHub, LeavePool, PoolPlan, ReportHub, Round
from burstcache.core.pool.slices import Redundancy
from burstcache.logs import logger

if TYPE_CHECKING:
    from burstcache.pool.hub import Hub as PoolHub

Control = Callable[[Mapping[str, object]], object]
_PAUSE_S = 1.0  # after a failure, in addition to the plan's interval


@dataclass(slots=True)
class HubCounters:
    """A hub's counters since its start, and the members connected since its last report."""

    requests: int = 0  # slices that readers requested
    hits: int = 0
    stored_bytes: int = 0
    invocations: int = 0
    served_ms: float = 0.0
    used: dict[str, str] = field(default_factory=dict)  # environment by member, empty if unknown
    has_demand: bool = False  # readers requested slices since the last report, even if no member was connected

    def totals(self) -> HubTotals:
        """Return the totals to report."""
        return HubTotals(
            requests=self.requests,
            hits=self.hits,
            stored_bytes=self.stored_bytes,
            invocations=self.invocations,
            served_ms=round(self.served_ms),
        )


def take_used_members(hub: PoolHub, counters: HubCounters) -> dict[str, str]:
    """Return the members connected to a hub since the last call, and update the counters of its invocations."""
    used, hub.used = dict.fromkeys(hub.members, "") | hub.used, {}
    if hub.invocations:
        counters.invocations, counters.served_ms = hub.invocations.count, hub.invocations.billed_ms
    return used


def serialized(control: Control) -> Control:
    """Serialize calls to pool control, so that a report in flight completes before the hub leaves."""
    lock = threading.Lock()

    def call(payload: Mapping[str, object]) -> object:
        with lock:
            return control(payload)

    return call


async def send_last_report(report: Callable[[], object]) -> None:
    """Run a last report in a thread. A failure is only logged, since pool control also detects silent hubs."""
    try:
        await asyncio.to_thread(report)
    except Exception as error:
        logger().warning("pool control does not answer", reason=repr(error))


class Heartbeat:
    """A hub's reports, sent on its event loop.

    Args:
        control: Invokes pool control with a payload and returns its response. May block its thread.
        hub: The hub's address.
        counters: The hub's counters.
        connected: Returns the members connected since the last call, like `take_used_members`.
        takes_readers: Whether the hub accepts readers that members cannot dial.

    Attributes:
        plan: The latest plan.
    """

    plan: PoolPlan

    def __init__(
        self,
        control: Control,
        hub: KnownHub,
        counters: HubCounters,
        *,
        connected: Callable[[], Mapping[str, str]] = dict,
        takes_readers: bool = False,
    ) -> None:
        self._control, self._serialized = control, serialized(control)
        self._hub = hub
        self._counters = counters
        self._connected = connected
        self._takes_readers = takes_readers
        self._subscribers: list[Callable[[PoolPlan], None]] = []

    @property
    def redundancies(self) -> tuple[Redundancy, ...]:
        """The erasure codes of slices, starting with the code of new slices."""
        return redundancies_of(self.plan)

    async def report(self) -> PoolPlan:
        """Report once, and return the plan.

        Raises:
            ServiceError: Lambda rejects the invocation, or is unreachable.
            FunctionFailedError: Pool control fails.
        """
        used, self._counters.used = self._counters.used | dict(self._connected()), {}
        try:
            report = ReportHub(
                op="hub",
                hub=self._hub,
                totals=self._counters.totals(),
                used=used,
                takes_readers=self._takes_readers,
            )
            self.plan = cast(PoolPlan, await asyncio.to_thread(self._serialized, report))
        except Exception:
            self._counters.used = used | self._counters.used
            raise
        for callback in self._subscribers:
            callback(self.plan)
        return self.plan

    def subscribe(self, callback: Callable[[PoolPlan], None]) -> None:
        """Call a function with each new plan, and immediately with the current plan if there is one."""
        self._subscribers.append(callback)
        if hasattr(self, "plan"):
            callback(self.plan)

    async def run(self) -> None:
        """Report repeatedly after the first report, until cancelled. After a failure the last plan stays valid."""
        while True:
            try:
                if self.plan["is_round_due"]:
                    await asyncio.to_thread(self._control, Round(op="round"))
                await asyncio.sleep(self.plan["report_s"])
                await self.report()
            except Exception as error:  # any error, since nothing else would restart the reports
                self.plan["is_round_due"] = False
                logger().warning("pool control does not answer, the last plan holds", reason=repr(error))
                await asyncio.sleep(_PAUSE_S)

    async def leave(self) -> None:
        """Report that the hub stops. If this fails, pool control notices the missing reports."""
        self._connected()
        report = LeavePool(op="leave", id=self._hub["id"], totals=self._counters.totals())
        await send_last_report(partial(self._serialized, report))


def redundancies_of(plan: PoolPlan) -> tuple[Redundancy, ...]:
    """Return the erasure codes of a plan, starting with the code of new slices."""
    return tuple(map(_redundancy, (plan["redundancy"], *plan["former"])))


def _redundancy(coded: Coded) -> Redundancy:
    return Redundancy(coded["data"], coded["parity"])
