"""A hub's reports to pool control, and the plan that it answers with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from burstcache.core.messages.pool_control import Coded, Hub, HubTotals, KnownHub, Leave, PoolPlan, Round
from burstcache.core.pool.slices import Redundancy
from burstcache.logs import logger

if TYPE_CHECKING:
    from burstcache.pool.hub import Hub as PoolHub

Control = Callable[[Mapping[str, object]], object]
_PAUSE_S = 1.0  # after a failure, whatever the plan says


@dataclass(slots=True)
class Seen:
    """What a hub has seen since its start, and which members were connected since its last report."""

    requests: int = 0  # slices that readers asked for
    hits: int = 0
    stored_bytes: int = 0
    invocations: int = 0
    served_ms: float = 0.0
    used: dict[str, str] = field(default_factory=dict)  # by member: its environment, empty if not known
    is_asked: bool = False  # readers asked for something since the last report, whether members were there or not

    def totals(self) -> HubTotals:
        """Return what is reported of it."""
        return HubTotals(
            requests=self.requests,
            hits=self.hits,
            stored_bytes=self.stored_bytes,
            invocations=self.invocations,
            served_ms=round(self.served_ms),
        )


def connected_to(hub: PoolHub, seen: Seen) -> dict[str, str]:
    """Return the members that were connected to a hub since the last call, and note what it has invoked."""
    used, hub.used = dict.fromkeys(hub.members, "") | hub.used, {}
    if hub.invocations:
        seen.invocations, seen.served_ms = hub.invocations.count, hub.invocations.billed_ms
    return used


def in_turn(control: Control) -> Control:
    """Return pool control told one thing after the other: a report that is under way comes before the end."""
    turn = threading.Lock()

    def tell(payload: Mapping[str, object]) -> object:
        with turn:
            return control(payload)

    return tell


class Heartbeat:
    """Reports for a hub, on its event loop.

    Args:
        control: Invokes pool control with a payload and returns its answer; it may block its thread.
        hub: Where the hub is.
        seen: What it sees.
        connected: Returns the members that were connected since its last call, such as `connected_to`.
        takes_readers: Whether the hub is there for readers that members cannot dial.

    Attributes:
        plan: The newest answer.
    """

    plan: PoolPlan

    def __init__(
        self,
        control: Control,
        hub: KnownHub,
        seen: Seen,
        *,
        connected: Callable[[], Mapping[str, str]] = dict,
        takes_readers: bool = False,
    ) -> None:
        self._control, self._tell = control, in_turn(control)
        self._hub = hub
        self._seen = seen
        self._connected = connected
        self._takes_readers = takes_readers
        self._followers: list[Callable[[PoolPlan], None]] = []

    @property
    def redundancies(self) -> tuple[Redundancy, ...]:
        """How slices are coded; the first is that of new ones."""
        return redundancies_of(self.plan)

    async def report(self) -> PoolPlan:
        """Report once, and return the plan.

        Raises:
            ServiceError: Lambda refuses, or cannot be asked.
            FunctionFailedError: Pool control fails.
        """
        used, self._seen.used = self._seen.used | dict(self._connected()), {}
        try:
            asked = Hub(
                op="hub",
                hub=self._hub,
                totals=self._seen.totals(),
                used=used,
                takes_readers=self._takes_readers,
            )
            self.plan = cast(PoolPlan, await asyncio.to_thread(self._tell, asked))
        except Exception:
            self._seen.used = used | self._seen.used
            raise
        for take in self._followers:
            take(self.plan)
        return self.plan

    def follow(self, take: Callable[[PoolPlan], None]) -> None:
        """Have a function called with each plan, and at once with the present one if there is one."""
        self._followers.append(take)
        if hasattr(self, "plan"):
            take(self.plan)

    async def run(self) -> None:
        """Report for as long as the hub is there, after the first report; a report that fails changes nothing."""
        while True:
            try:
                if self.plan["is_round_due"]:
                    await asyncio.to_thread(self._control, Round(op="round"))
                await asyncio.sleep(self.plan["report_s"])
                await self.report()
            except Exception as error:  # whatever it is, there is no other to report
                self.plan["is_round_due"] = False
                logger().warning("pool control does not answer, the last plan holds", reason=repr(error))
                await asyncio.sleep(_PAUSE_S)

    async def leave(self) -> None:
        """Say that the hub stops; if that fails, pool control finds out by itself."""
        self._connected()
        try:
            await asyncio.to_thread(self._tell, Leave(op="leave", id=self._hub["id"], totals=self._seen.totals()))
        except Exception as error:
            logger().warning("pool control does not answer", reason=repr(error))


def redundancies_of(plan: PoolPlan) -> tuple[Redundancy, ...]:
    """Return how slices are coded by a plan; the first is that of new ones."""
    return tuple(map(_redundancy, (plan["redundancy"], *plan["former"])))


def _redundancy(coded: Coded) -> Redundancy:
    return Redundancy(coded["data"], coded["parity"])
