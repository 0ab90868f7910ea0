"""Runs of Redis nodes: anything that needs a node starts one, with or without a key that waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.core.deadlines import BOOT_S
from burstcache.core.errors import ContendedRowTransientError, NodeFailedError, ServiceError
from burstcache.core.keys import next_number
from burstcache.core.messages.executions import node_execution_input
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import NodeRow

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class NodeRuns:
    """Starts runs. Every step may run twice.

    `peers` are the nodes among which keys have their homes in the runs to come: without any they take no guests.
    """

    nodes: NodeTable
    executions: Executions
    machine_arn: str
    clock: Clock
    peers: Sequence[str] = ()

    def see_that_it_boots(self, row: NodeRow, *, by_hand: bool = False) -> NodeRow | None:
        """Make sure that a node boots; return its row if it already runs.

        A stopping node is left alone: once its instance has stopped, it boots again for the leases that wait. Without
        a lease, ask again later.

        Args:
            row: The node's row.
            by_hand: A person wants it, whose attempt no cool-down bars.

        Raises:
            NodeFailedError: Its last boot failed, and it cools down, or its hours of the day are used up.
            ContendedRowTransientError: Others kept changing the row.
        """
        for _ in range(_ATTEMPTS):
            phase = row.phase_at(self.clock.now_us())
            if phase == "running":
                return row
            if phase == "stopping":
                return None
            if phase == "stopped":
                if not by_hand and row.is_barred(self.clock.now_us()):
                    raise NodeFailedError(f"node {row.node} {row.bar}")
                if self.boot(row) is not None:
                    return None
            else:
                self.start(row)  # what wrote the row may have died before it did this
                return None
            row = self.nodes.read(row.node)
        raise ContendedRowTransientError(f"node {row.node} changed under {_ATTEMPTS} attempts to boot it")

    def boot(self, seen: NodeRow) -> NodeRow | None:
        """Start a new generation of a stopped node; None if another writer has changed the row meanwhile.

        A start that Step Functions refuses leaves the row as it was: else the node would wait for the janitor.
        """
        now_us = self.clock.now_us()
        row = self.nodes.change(
            seen,
            phase="booting",
            generation=next_number(seen.generation, now_us=now_us),
            part=1,
            deadline_at_us=now_us + BOOT_S * US_PER_S,
            peers=list(self.peers),
        )
        if row is not None:
            try:
                self.start(row)
            except ServiceError:
                self._take_back(row, seen)
                raise
        return row

    def _take_back(self, row: NodeRow, seen: NodeRow) -> None:
        """Undo a boot, unless a key or a holder has joined it: either starts the run, too.

        Should it have started after all, its first step finds that it is superseded.
        """
        self.nodes.change(
            row,
            no_join_since=True,
            phase=seen.phase,
            generation=seen.generation or row.generation,  # a row that has been numbered is no new one
            part=seen.part,
            deadline_at_us=seen.deadline_at_us,
            peers=list(seen.peers),
        )

    def start(self, row: NodeRow) -> bool:
        """Start the execution that the row names unless it runs; False if it has ended."""
        return self.executions.start(self.machine_arn, row.execution_name, node_execution_input(row))
