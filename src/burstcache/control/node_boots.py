"""Boots of nodes that take guests: nobody holds a lease, and readers learn with the run which keys it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.node_table import NodeTable
from burstcache.core.keys import next_number
from burstcache.core.messages import node_execution_input
from burstcache.core.parameters import US_PER_S
from burstcache.core.table import NodeRow

_BOOT_DEADLINE_S = 420


@dataclass(frozen=True, slots=True)
class NodeBoots:
    """What starts runs of nodes."""

    nodes: NodeTable
    executions: Executions
    machine_arn: str
    node_names: Sequence[str]
    clock: Clock

    def boot(self, seen: NodeRow) -> NodeRow | None:
        """Start a new run of a stopped node; None if another writer has changed the row meanwhile."""
        now_us = self.clock.now_us()
        row = self.nodes.change(
            seen,
            phase="booting",
            generation=next_number(seen.generation, now_us=now_us),
            part=1,
            deadline_at_us=now_us + _BOOT_DEADLINE_S * US_PER_S,
            peers=list(self.node_names),
        )
        if row is not None:
            self.executions.start(self.machine_arn, row.execution_name, node_execution_input(row))
        return row
