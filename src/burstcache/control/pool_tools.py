"""What the pool's control works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache.adapters.billed import Billed
from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.hub_service import HubService
from burstcache.adapters.pauses import Pauses
from burstcache.adapters.pool_table import PoolTable
from burstcache.core.messages.pool import MemberState
from burstcache.core.pool.costs import MemberPrice


@dataclass(frozen=True, slots=True)
class PoolTools:
    """What the pool's control works with.

    Attributes:
        table: The pool's rows.
        executions: Of the pool's state machine.
        machine_arn: That machine.
        pauses: Of the stack.
        members: All members' names.
        price: Of a member.
        keep_s: How long chunks are kept that nobody asks for [s].
        hubs: Starts and ends the hub for readers that members cannot dial; None: there is none.
        warm: Invokes a member that has nothing else to do and returns its answer, or raises a BurstcacheError.
        clock: The time.
        billed: What this environment of pool control is billed for.
    """

    table: PoolTable
    executions: Executions
    machine_arn: str
    pauses: Pauses
    members: tuple[str, ...]
    price: MemberPrice
    keep_s: int
    hubs: HubService | None
    warm: Callable[[str], MemberState]
    clock: Clock
    billed: Billed

    def control_after(self, known: tuple[int, int]) -> tuple[int, int]:
        """Return invocations of pool control and their time [ms]: those that were known, and those since."""
        count, ms = self.billed.tell()
        return known[0] + count, known[1] + ms
