"""The tools of pool control: tables, services and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache.adapters.billed import Billed
from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.hub_service import HubService
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.pool_table import PoolTable
from burstcache.core.messages.pool import MemberState
from burstcache.core.pool.costs import MemberPrice


@dataclass(frozen=True, slots=True)
class PoolTools:
    """The dependencies of pool control.

    Attributes:
        table: The pool's rows.
        executions: Executions of the pool's state machine.
        machine_arn: The ARN of that machine.
        pauses: The stack's pause switch.
        members: The names of all members.
        price: The price of a member.
        keep_s: How long unused chunks are kept [s].
        hubs: Starts and stops the hub for readers that members cannot dial. None if the stack has no such hub.
        warm: Invokes an idle member and returns its answer, or raises a BurstcacheError.
        clock: The clock.
        billed: The billed usage of this environment of pool control.
    """

    table: PoolTable
    executions: Executions
    machine_arn: str
    pauses: PauseSwitch
    members: tuple[str, ...]
    price: MemberPrice
    keep_s: int
    hubs: HubService | None
    warm: Callable[[str], MemberState]
    clock: Clock
    billed: Billed

    def control_after(self, former: tuple[int, int]) -> tuple[int, int]:
        """Add pool control's invocations since the last call to `former`, and return their number and time [ms]."""
        count, ms = self.billed.read_usage()
        return former[0] + count, former[1] + ms
