"""What the pool's control works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
