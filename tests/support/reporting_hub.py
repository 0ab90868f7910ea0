"""A hub that reports to pool control, and pool control's view of hubs and executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache.adapters.executions import execution_arn
from burstcache.adapters.pool_table import PoolRows
from burstcache.core.messages.pool_control import HubTotals, KnownHub, PoolPlan
from burstcache.core.pool.retention import NO_TOTALS, REPORT_S
from support.functions import KEEP_S
from support.world import World

_MB = 1 << 20


class Hub:
    """Hub as pool control sees it."""

    def __init__(self, world: World, name: str = "hub-1") -> None:
        self.totals = HubTotals(**NO_TOTALS)
        self.address = KnownHub(id=name, host="10.0.0.5", port=4_000, token="ab" * 32, certificate="")
        self._world = world

    def report(self, used: Mapping[str, str] | None = None) -> PoolPlan:
        """Report, and run a pool round if one is due."""
        event = {"op": "hub", "hub": self.address, "totals": {**self.totals}, "used": used or {}}
        plan: PoolPlan = self._world.invoke("pool_control", event)
        if plan["is_round_due"]:
            self._world.invoke("pool_control", {"op": "round"})
        return plan

    def report_for(self, duration_s: int, *, reads: int = 0) -> None:
        """Report every minute, each time with `reads` more hits."""
        for _ in range(duration_s // REPORT_S):
            self._world.clock.sleep(REPORT_S)
            self.read(reads)
            self.report()

    def store(self, member: str, stored_bytes: int = _MB) -> None:
        """Store a chunk."""
        self._world.members.store(member, stored_bytes)
        self.totals["stored_bytes"] += stored_bytes

    def read(self, hits: int = 1) -> None:
        """Read from members."""
        self.totals["requests"] += hits
        self.totals["hits"] += hits

    def leave(self) -> None:
        """Announce that the hub leaves."""
        self._world.invoke("pool_control", {"op": "leave", "id": self.address["id"], "totals": self.totals})


def hub_in_use(world: World) -> Hub:
    """Return a hub that has stored a chunk and reported it."""
    hub = Hub(world)
    hub.report()
    hub.store("pool-3")
    hub.report()
    world.clock.sleep(1)
    return hub


def rows_of(world: World) -> PoolRows:
    """Return the pool's rows in the table."""
    return world.pool.table.read()


def running_in(world: World) -> list[str]:
    """Return the running executions."""
    return world.executions_of(world.pool_machine)


def end_of(world: World, *, within_s: float = 2 * KEEP_S) -> Any:
    """Wait until no execution runs. Return the description of the last one."""
    name = rows_of(world).state.execution_name
    world.until(lambda: not running_in(world), within_s=within_s, every_s=10)
    return world.states_client.describe_execution(executionArn=execution_arn(world.pool_machine, name))
