"""The leases on state databases: the first holder boots a database, and a database without a lease stops.

A database is a node that is never a key's home node. Its holders' leases are node leases without a key. A release
shortens a lease to the grace period, so that the next holder may find the database still running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.control.node_runs import NodeRuns
from burstcache.control.node_utilisation import Verdict
from burstcache.core.databases import check_hold_s, check_holder, check_operation, database_of_node, node_of_database
from burstcache.core.errors import LeaseLostError, NodeAbsentError, NodeFailedError, PausedError
from burstcache.core.messages.answers import NodeReady
from burstcache.core.messages.state import DatabaseHeld, StateOperation
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import Lease, NodeRow


@dataclass(frozen=True, slots=True)
class StateLeases:
    """The leases of database holders. Every operation is idempotent."""

    node_names: Sequence[str]  # the nodes of state databases
    nodes: NodeTable
    runs: NodeRuns
    executions: Executions
    pauses: PauseSwitch
    grace_s: int
    clock: Clock

    def run(self, operation: StateOperation) -> DatabaseHeld:
        """Run a holder's operation.

        Raises:
            NodeAbsentError: The stack has no such database.
            InvalidSettingError: The operation does not exist, or one of its fields is missing or invalid.
        """
        check_operation(operation)
        node = self._node(operation["database"])
        if operation["op"] == "look":
            return _held(self.nodes.read(node), 0)
        holder = check_holder(operation["holder"])
        match operation["op"]:
            case "acquire":
                return self.acquire(node, holder, check_hold_s(operation["for_s"]), operation.get("token", ""))
            case "keep":
                return self.renew(node, holder, check_hold_s(operation["for_s"]))
            case "release":
                return self.release(node, holder)
            case _:
                assert_never(operation)

    def acquire(self, node: str, holder: str, for_s: int, token: str = "") -> DatabaseHeld:
        """Acquire a lease and boot the database. Complete the token once the database is ready.

        Raises:
            PausedError: The stack is paused.
            NodeFailedError: The database cools down after a failed boot.
        """
        if pause := self.pauses.read():
            raise PausedError(
                f"{node} does not boot, the stack is paused: {pause.reason}; `burstcache resume` ends that"
            )
        lease = Lease(node, holder, waiter=token, held_until_us=self._in_s(for_s))
        row = self.nodes.join(lease)
        try:
            running = self.runs.ensure_booting(row)
        except NodeFailedError:
            self.nodes.drop(lease)
            raise
        if running and token:
            self.executions.succeed(token, NodeReady(generation=running.generation))
        return _held(running or self.nodes.read(node), lease.held_until_us)

    def renew(self, node: str, holder: str, for_s: int) -> DatabaseHeld:
        """Renew a lease that has not expired.

        Raises:
            NodeFailedError: The database did not boot.
            LeaseLostError: The lease has expired, or the database has lost its node.
        """
        held_until_us = self._in_s(for_s)
        is_kept = self.nodes.extend(Lease(node, holder), held_until_us=held_until_us, now_us=self.clock.now_us())
        row = self.nodes.read(node)
        if not is_kept:
            if self.clock.now_us() < row.not_before_us:
                raise NodeFailedError(f"{node} cools down after {row.failures} failed boots")
            raise LeaseLostError(
                f"{holder} does not hold database {database_of_node(node)!r} any more: its lease ran out or its node"
                " was lost. Acquire it again, and expect what `docs/use/state.md` lists"
            )
        if row.phase_at(self.clock.now_us()) == "stopped":  # the execution that should boot the database has died
            self.runs.ensure_booting(row)
        return _held(row, held_until_us)

    def release(self, node: str, holder: str) -> DatabaseHeld:
        """Shorten a lease to the grace period. A missing lease counts as released."""
        now_us = self.clock.now_us()
        self.nodes.extend(Lease(node, holder), held_until_us=now_us + self.grace_s * US_PER_S, now_us=now_us)
        return _held(self.nodes.read(node), 0)

    def _node(self, database: str) -> str:
        if (node := node_of_database(database)) in self.node_names:
            return node
        accepted = ", ".join(map(database_of_node, self.node_names)) or "none"
        raise NodeAbsentError(f"no database {database!r}; StateDatabases has: {accepted}")

    def _in_s(self, seconds: int) -> int:
        return self.clock.now_us() + seconds * US_PER_S


def _held(row: NodeRow, held_until_us: int) -> DatabaseHeld:
    host = row.host if row.phase == "running" else ""
    return DatabaseHeld(phase=row.phase, held_until_us=held_until_us, host=host)


@dataclass(frozen=True, slots=True)
class HolderUtilisation:
    """The utilisation check of a database, which runs while it has a lease."""

    check_us: int  # maximum interval between checks; a release takes effect at the next check
    clock: Clock

    def first_check_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the time at which the last lease expires, or `check_us` after `after_us` if that is sooner.

        Return None without a lease.
        """
        if not leases:
            return None
        last_us = max(lease.held_until_us for lease in leases)
        return min(max(last_us, after_us + US_PER_S), after_us + self.check_us)

    def check_node(self, row: NodeRow, leases: Sequence[Lease], *, check_at_us: int) -> Verdict:
        """Plan the next check. Release nothing, since holders' leases expire by themselves."""
        after_us = max(check_at_us, self.clock.now_us())
        return Verdict((), self.first_check_us(row, leases, after_us=after_us))
