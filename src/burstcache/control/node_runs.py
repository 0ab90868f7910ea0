"""The runs of Redis nodes. Any caller that needs a node starts a run, with or without a waiting key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock, back_off
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.core.databases import is_database
from burstcache.core.deadlines import BOOT_S
from burstcache.core.errors import ContendedRowTransientError, NodeFailedError, ServiceError
from burstcache.core.keys import next_number
from burstcache.core.messages.executions import node_execution_input
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import NodeRow
from burstcache.core.table import NodeColumns

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class NodeRuns:
    """The runs of all nodes. Every step is idempotent.

    `peers` are the nodes over which future runs distribute keys. Without peers, nodes hold no read-through entries.
    """

    nodes: NodeTable
    executions: Executions
    machine_arn: str
    clock: Clock
    peers: Sequence[str] = ()

    def ensure_booting(self, row: NodeRow) -> NodeRow | None:
        """Make sure that a node boots. Return its row if it is already running, else None.

        Do nothing for a stopping node, since it boots again after the stop if there are leases. A caller without a
        lease must call again later.

        Args:
            row: The node's row.

        Raises:
            NodeFailedError: The node cools down after a failed boot, or has used up its daily hours.
            ContendedRowTransientError: The row kept changing.
        """
        for attempt in range(_ATTEMPTS):
            phase = row.phase_at(self.clock.now_us())
            if phase == "running":
                return row
            if phase == "stopping":
                return None
            if phase == "stopped":
                if row.is_barred(self.clock.now_us()):
                    raise NodeFailedError(f"node {row.node} {row.bar}")
                if self.boot(row) is not None:
                    return None
            else:
                self.start(row)  # the writer of the row may have died before starting the execution
                return None
            back_off(self.clock, attempt)
            row = self.nodes.read(row.node)
        raise ContendedRowTransientError(f"node {row.node} changed under {_ATTEMPTS} attempts to boot it")

    def hold(self, row: NodeRow, *, until_us: int) -> NodeRow:
        """Hold a node for a person, make sure that it boots, and return its row. A cool-down does not bar this boot.

        One write adds the hold and boots a stopped node. A stop's mark ends earlier holds. Thus a hold either precedes
        the mark, and its run is the one that stops, or follows it, and the node boots again.

        Args:
            row: The node's row.
            until_us: End of the hold [us].

        Raises:
            ContendedRowTransientError: The row kept changing.
        """
        for attempt in range(_ATTEMPTS):
            if row.phase_at(self.clock.now_us()) == "stopped":
                held = self.boot(row, held_until_us=until_us)
            else:
                held = self.nodes.change(row, is_join=True, held_until_us=until_us)
                if held is not None and held.phase == "booting":
                    self.start(held)  # the writer of the row may have died before starting the execution
            if held is not None:
                return held
            back_off(self.clock, attempt)
            row = self.nodes.read(row.node)
        raise ContendedRowTransientError(f"node {row.node} changed under {_ATTEMPTS} attempts to hold it")

    def boot(self, seen: NodeRow, *, held_until_us: int = 0) -> NodeRow | None:
        """Start a new generation of a stopped node. Return None if another writer has changed the row meanwhile.

        If Step Functions rejects the start, roll the row back. Otherwise the node would be stuck until the janitor
        runs.

        Args:
            seen: The node's row.
            held_until_us: End of a person's hold that the boot adds [us], or 0.
        """
        now_us = self.clock.now_us()
        changes = NodeColumns(
            phase="booting",
            generation=next_number(seen.generation, now_us=now_us),
            part=1,
            deadline_at_us=now_us + BOOT_S * US_PER_S,
            peers=list(self.peers),
        )
        if seen.task or seen.host or seen.notice:
            # A run whose execution died may still be asked at its address, so writes go there until BootNode hides it.
            # A database has no readers.
            host = seen.host if seen.phase == "running" and not is_database(seen.node) else ""
            changes |= NodeColumns(task="", task_kind="", host=host, notice="")
        if held_until_us:
            changes["held_until_us"] = held_until_us
        row = self.nodes.change(seen, is_join=bool(held_until_us), **changes)
        if row is not None:
            try:
                self.start(row)
            except ServiceError:
                self._roll_back(row, seen)
                raise
        return row

    def _roll_back(self, row: NodeRow, seen: NodeRow) -> None:
        """Roll a boot back, unless a key or a holder has joined the node, since a join starts the run as well.

        If the execution did start, its first step detects that it is superseded.
        """
        self.nodes.change(
            row,
            no_join_since=True,
            phase=seen.phase,
            generation=seen.generation or row.generation,  # a generation is never reset to 0
            part=seen.part,
            deadline_at_us=seen.deadline_at_us,
            held_until_us=seen.held_until_us,
            peers=list(seen.peers),
        )

    def start(self, row: NodeRow) -> bool:
        """Start the execution named in the row unless it is running. Return False if it has ended."""
        return self.executions.start(self.machine_arn, row.execution_name, node_execution_input(row))
