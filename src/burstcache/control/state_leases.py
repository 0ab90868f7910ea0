"""Leases on databases of state: the first holder wakes a database up, and without any it falls asleep.

A database is a node that no key has its home on. A holder's lease stands among the node's leases and has no key; a
release shortens it to the grace, so that the next holder may find the database awake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.control.node_judge import Verdict
from burstcache.control.node_runs import NodeRuns
from burstcache.core.databases import check_hold_s, check_holder, check_operation, database_of_node, node_of_database
from burstcache.core.errors import LeaseLostError, NodeAbsentError, NodeFailedError, PausedError
from burstcache.core.messages.answers import NodeReady
from burstcache.core.messages.state import DatabaseHeld, StateOperation
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import Lease, NodeRow


@dataclass(frozen=True, slots=True)
class StateLeases:
    """What the state function does for the holders of databases. Every step may run twice."""

    node_names: Sequence[str]  # those of the databases
    nodes: NodeTable
    runs: NodeRuns
    executions: Executions
    pauses: Pauses
    grace_s: int
    clock: Clock

    def run(self, operation: StateOperation) -> DatabaseHeld:
        """Do what a holder asks.

        Raises:
            NodeAbsentError: The stack has no such database.
            InvalidSettingError: There is no such operation, or something in it is missing or not accepted.
        """
        check_operation(operation)
        node, holder = self._node(operation["database"]), check_holder(operation["holder"])
        match operation["op"]:
            case "acquire":
                return self.acquire(node, holder, check_hold_s(operation["for_s"]), operation.get("token", ""))
            case "keep":
                return self.keep(node, holder, check_hold_s(operation["for_s"]))
            case "release":
                return self.release(node, holder)
            case _:
                assert_never(operation)

    def acquire(self, node: str, holder: str, for_s: int, token: str = "") -> DatabaseHeld:
        """Put a lease and see that the database wakes up; its readiness completes the token.

        Raises:
            PausedError: Nothing starts in this stack for now.
            NodeFailedError: Its last boot failed, and it cools down.
        """
        if pause := self.pauses.read():
            raise PausedError(
                f"{node} does not boot, the stack is paused: {pause.reason}; `burstcache resume` ends that"
            )
        lease = Lease(node, holder, waiter=token, held_until_us=self._in_s(for_s))
        row = self.nodes.join(lease)
        try:
            running = self.runs.see_that_it_boots(row)
        except NodeFailedError:
            self.nodes.drop(lease)
            raise
        if running and token:
            self.executions.succeed(token, NodeReady(generation=running.generation))
        return DatabaseHeld(phase=(running or self.nodes.read(node)).phase, held_until_us=lease.held_until_us)

    def keep(self, node: str, holder: str, for_s: int) -> DatabaseHeld:
        """Extend a lease that has not run out.

        Raises:
            NodeFailedError: The database did not wake up.
            LeaseLostError: The lease has run out, or the database has lost its node.
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
        if row.phase_at(self.clock.now_us()) == "stopped":  # what was to boot it has died
            self.runs.see_that_it_boots(row)
        return DatabaseHeld(phase=row.phase, held_until_us=held_until_us)

    def release(self, node: str, holder: str) -> DatabaseHeld:
        """Let a lease run out after the grace; one that is gone is released."""
        now_us = self.clock.now_us()
        self.nodes.extend(Lease(node, holder), held_until_us=now_us + self.grace_s * US_PER_S, now_us=now_us)
        return DatabaseHeld(phase=self.nodes.read(node).phase, held_until_us=0)

    def _node(self, database: str) -> str:
        if (node := node_of_database(database)) in self.node_names:
            return node
        known = ", ".join(map(database_of_node, self.node_names)) or "none"
        raise NodeAbsentError(f"no database {database!r}; StateDatabases has: {known}")

    def _in_s(self, seconds: int) -> int:
        return self.clock.now_us() + seconds * US_PER_S


@dataclass(frozen=True, slots=True)
class HolderJudge:
    """Judges a database: it stays awake as long as a lease holds."""

    check_us: int  # looks are at most this far apart: a release is seen by the next one
    clock: Clock

    def first_look_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return when the last lease runs out, or a check's time later; None without a lease."""
        if not leases:
            return None
        last_us = max(lease.held_until_us for lease in leases)
        return min(max(last_us, after_us + US_PER_S), after_us + self.check_us)

    def look(self, row: NodeRow, leases: Sequence[Lease], *, look_at_us: int) -> Verdict:
        """Release nothing: leases of holders run out by themselves."""
        after_us = max(look_at_us, self.clock.now_us())
        return Verdict((), self.first_look_us(row, leases, after_us=after_us))
