"""The janitor finds what no longer has an owner and has it switched off: `docs/understand/lifecycle.md`, "The janitor".

A row is looked at twice, some seconds apart: between a row's write and its execution's start nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.core.keys import node_execution_name
from burstcache.core.parameters import US_PER_S
from burstcache.core.table import KeyRow, NodeRow

_LOOK_AGAIN_S = 5
# An instance that runs while its row says `stopped` may be in its first boot: it installs Redis and shuts itself down.
_FIRST_BOOT_US = 600 * US_PER_S


@dataclass(frozen=True, slots=True)
class Janitor:
    """Compares rows, executions and instances."""

    keys: KeyTable
    nodes: NodeTable
    executions: Executions
    instances: Instances
    key_lifecycle_arn: str
    redis_node_arn: str
    node_names: Sequence[str]
    redis_control: Callable[[dict[str, Any]], None]
    clock: Clock

    def clean(self) -> dict[str, list[str]]:
        """Clean up whatever has lost its owner.

        Returns:
            The keys that went back to S3, the nodes that were stopped.
        """
        now_us = self.clock.now_us()
        suspects = {row.hash: row for row in self.keys.scan_live() if not self._is_owned(row, now_us)}
        suspect_nodes = [row for row in map(self.nodes.read, self.node_names) if not self._is_node_owned(row, now_us)]
        if suspects or suspect_nodes:
            self.clock.sleep(_LOOK_AGAIN_S)
        orphans = [
            row
            for row in self.keys.read_many(suspects).values()
            if row.phase != "s3" and row.epoch == suspects[row.hash].epoch and not self._is_owned(row, now_us)
        ]
        orphan_nodes = [
            row
            for row in (self.nodes.read(suspect.node) for suspect in suspect_nodes)
            if row.generation in {suspect.generation for suspect in suspect_nodes}
            and not self._is_node_owned(row, now_us)
        ]
        for row in orphans:
            self._return_to_s3(row)
        for node in orphan_nodes:
            self.redis_control({"op": "release", "node": node.node})
        return {"keys": [row.key for row in orphans], "nodes": [row.node for row in orphan_nodes]}

    def _is_owned(self, row: KeyRow, now_us: int) -> bool:
        return row.is_live(now_us) and self.executions.is_running(self.key_lifecycle_arn, row.execution_name)

    def _is_node_owned(self, row: NodeRow, now_us: int) -> bool:
        """Tell whether all is well: a stopped node does not run, any other one has an execution within its deadline."""
        if row.phase == "stopped":
            return not self._runs_unasked(row.node)
        return now_us < row.deadline_at_us and any(
            self.executions.is_running(self.redis_node_arn, node_execution_name(row.node, row.generation, part))
            for part in (row.part, row.part - 1)  # the row is ahead while a successor starts
            if part > 0
        )

    def _runs_unasked(self, node: str) -> bool:
        state, started_at_us = self.instances.state_since(node)
        return state in ("pending", "running") and self.clock.now_us() - started_at_us > _FIRST_BOOT_US

    def _return_to_s3(self, row: KeyRow) -> None:
        self.executions.stop(self.key_lifecycle_arn, row.execution_name, cause="its deadline has passed")
        self.redis_control(
            {
                "op": "leave",
                "key": row.key,
                "key_hash": row.hash,
                "epoch": row.epoch,
                "queue_us": [],
                "is_failed": True,
                "failures": row.failures,
            }
        )
