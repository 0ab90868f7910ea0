"""The janitor finds what no longer has an owner and has it switched off: `docs/understand/lifecycle.md`, "The janitor".

A row is looked at twice, some seconds apart: between a row's write and its execution's start nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.core.digest import RoutedKey, RunningNode
from burstcache.core.keys import node_execution_name
from burstcache.core.messages.operations import InstanceStopped, Leave, Operation, Release
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASE_RANK
from burstcache.core.table import KeyRow, NodeRow

_LOOK_AGAIN_S = 5
# An instance that runs while its row says `stopped` may be in its first boot: it installs Redis and shuts itself down.
_FIRST_BOOT_US = 600 * US_PER_S


class Cleaned(TypedDict):
    """The keys that went back to S3, the nodes that were stopped, or whose stop was followed."""

    keys: list[str]
    nodes: list[str]


@dataclass(frozen=True, slots=True)
class Janitor:
    """Compares rows, executions and instances."""

    keys: KeyTable
    digest: DigestTable
    nodes: NodeTable
    executions: Executions
    instances: Instances
    key_lifecycle_arn: str
    redis_node_arn: str
    node_names: Sequence[str]
    always_on: Sequence[str]  # those of the nodes that never stop
    redis_control: Callable[[Operation], object]
    clock: Clock

    def clean(self) -> Cleaned:
        """Return keys and stop nodes that have lost their owner; name them."""
        keys, nodes = self._unowned_keys(), self._unowned_nodes(self.node_names)
        if keys or nodes:
            self.clock.sleep(_LOOK_AGAIN_S)
        try:
            return Cleaned(keys=self._return_keys(keys), nodes=self._release_nodes(nodes))
        finally:  # also if a node cannot be stopped
            self._mend_digest()

    def _mend_digest(self) -> None:
        """Show what the digest lacks, and remove from it the keys that no tier serves any more.

        It is read before the rows: what they say beyond it is newer, or was never shown.
        """
        digest = self.digest.read()
        routed = {row.hash: row for row in self.keys.scan_live() if row.tier}
        wrong = {hash_ for hash_, row in routed.items() if _differs(row, digest.routes.get(hash_))}
        rows = self.keys.read_many(wrong | (digest.routes.keys() - routed.keys()))  # a scan may lag behind
        for hash_, row in rows.items():
            if row.tier and _differs(row, digest.routes.get(hash_)):
                self.digest.show_key(row)
        for hash_, shown in digest.routes.items():
            if hash_ not in routed and not (hash_ in rows and rows[hash_].tier):
                self.digest.remove_key(hash_, shown)
        for node in map(self.nodes.read, self.node_names):
            if _shows_wrong_run(node, digest.nodes.get(node.node)):
                self.digest.show_node(node)

    def _unowned_keys(self) -> list[KeyRow]:
        return [row for row in self.keys.scan_live() if not self._is_owned(row)]

    def _unowned_nodes(self, names: Iterable[str]) -> list[NodeRow]:
        return [row for row in map(self.nodes.read, names) if not self._is_node_owned(row)]

    def _return_keys(self, suspects: Sequence[KeyRow]) -> list[str]:
        """Return the keys to S3 whose life is the same as before and still has no owner."""
        rows = self.keys.read_many(row.hash for row in suspects)
        returned = []
        for suspect in suspects:
            row = rows.get(suspect.hash)
            if row is not None and row.phase != "s3" and row.epoch == suspect.epoch and not self._is_owned(row):
                self._return_to_s3(row)
                returned.append(row.key)
        return returned

    def _release_nodes(self, suspects: Sequence[NodeRow]) -> list[str]:
        """Stop the nodes whose run is the same as before and still has no owner."""
        generations = {row.node: row.generation for row in suspects}
        orphans = [row for row in self._unowned_nodes(generations) if row.generation == generations[row.node]]
        for row in orphans:
            is_over = row.phase in ("stopping", "stopped") or self._has_execution(row)
            if is_over and self.instances.has_stopped(row.node):  # EC2's event was lost, or the node is always on
                self.redis_control(InstanceStopped(op="instance_stopped", node=row.node))
            else:
                self.redis_control(Release(op="release", node=row.node))
        return [row.node for row in orphans]

    def _is_owned(self, row: KeyRow) -> bool:
        return row.is_live(self.clock.now_us()) and self.executions.is_running(
            self.key_lifecycle_arn, row.execution_name
        )

    def _is_node_owned(self, row: NodeRow) -> bool:
        """Whether a stopped node is off and may be, and any other is on and has an execution within its deadline.

        A stopping one needs none once its instance stops.
        """
        state, started_at_us = self.instances.state_since(row.node)
        age_us = self.clock.now_us() - started_at_us
        if row.phase == "stopped":
            if state in ("pending", "running"):
                return age_us <= _FIRST_BOOT_US
            return state == "stopping" or row.node not in self.always_on
        if self.clock.now_us() >= row.deadline_at_us or state in ("stopped", "terminated"):
            return False
        return (row.phase, state) == ("stopping", "stopping") or self._has_execution(row)

    def _has_execution(self, row: NodeRow) -> bool:
        return any(
            self.executions.is_running(self.redis_node_arn, node_execution_name(row.node, row.generation, part))
            for part in (row.part, row.part - 1)  # the row is ahead while a successor starts
            if part > 0
        )

    def _return_to_s3(self, row: KeyRow) -> None:
        self.executions.stop(self.key_lifecycle_arn, row.execution_name, cause="its deadline has passed")
        self.redis_control(
            Leave(
                op="leave",
                key=row.key,
                key_hash=row.hash,
                epoch=row.epoch,
                node=row.node,
                failures=row.failures,
                is_failed=True,
                queue_us=[],
            )
        )


def _differs(row: KeyRow, shown: RoutedKey | None) -> bool:
    """Whether the digest shows a key otherwise than its row has it."""
    return shown is None or (shown.epoch, shown.phase_rank, shown.tier) != (
        row.epoch,
        KEY_PHASE_RANK[row.phase],
        row.tier,
    )


def _shows_wrong_run(node: NodeRow, shown: RunningNode | None) -> bool:
    """Whether the digest shows a node otherwise than its row has it; one that never ran need not be shown."""
    runs = node.phase == "running"
    return runs if shown is None else (shown.generation, shown.is_running) != (node.generation, runs)
