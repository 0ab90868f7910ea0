"""The copies of objects on nodes, both seeded and read-through. A write removes them and revokes load leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from burstcache.adapters.clock import Clock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.concurrency import run_concurrently
from burstcache.control.retry import retry_until_answered
from burstcache.core.errors import RedisDownError
from burstcache.core.rows import KeyRow, NodeRow


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of dropping an object's copies from nodes.

    Attributes:
        of_life: The nodes of the key's life that have dropped its copy.
        lost: The rows of nodes that did not answer. Readers with the corrected digest do not use these nodes.
        copies: The number of nodes that had a copy.
    """

    of_life: set[str]
    lost: Sequence[NodeRow]
    copies: int


@dataclass(frozen=True, slots=True)
class NodeCopies:
    """The copies on all nodes of a stack."""

    node_names: Sequence[str]
    nodes: NodeTable
    store: Callable[[str], RedisObjects]  # takes a node's name
    lose: Callable[[NodeRow], NodeRow]  # removes a node from the digest, stops it, and returns its new row
    clock: Clock

    def drop(self, hash_: str, row: KeyRow | None = None) -> Dropped:
        """Drop the copies of a written object and revoke the leases of its loads, on all nodes concurrently.

        Args:
            hash_: The key's hash.
            row: The key's row, read after the write, or None if the key has no row.

        Raises:
            ServiceError: DynamoDB fails.
        """
        now_us = self.clock.now_us()
        holders = [node for node in self.nodes.read_many(self.node_names) if _may_hold(node, hash_, row, now_us)]
        had_copy = set[str]()
        all_dropped = run_concurrently(self.clock, *(partial(self._drop_on, node, hash_, had_copy) for node in holders))
        of_life, lost = set[str](), []
        for node, is_dropped in zip(holders, all_dropped, strict=True):
            if is_dropped and _has_life_on(node, row, now_us):
                of_life.add(node.node)
            elif not is_dropped and node.phase != "booting":  # a booting node is empty until its row says `running`
                lost.append(self.lose(node))
        return Dropped(of_life, lost, len(had_copy))

    def note_unasked(self, lost: Sequence[NodeRow]) -> None:
        """Record that no reader uses these nodes any more, so that later writes skip them."""
        for node in lost:
            if node.phase == "stopping":
                self.nodes.change(node, unasked_in=node.generation)

    def _drop_on(self, node: NodeRow, hash_: str, had_copy: set[str]) -> bool:
        def drop() -> None:
            if self.store(node.node).drop(hash_):
                had_copy.add(node.node)

        return retry_until_answered(drop, RedisDownError, self.clock, once=node.phase != "running")


def _may_hold(node: NodeRow, hash_: str, row: KeyRow | None, now_us: int) -> bool:
    return not node.is_unasked and (_has_life_on(node, row, now_us) or node.is_home_of(hash_))


def _has_life_on(node: NodeRow, row: KeyRow | None, now_us: int) -> bool:
    return row is not None and row.may_be_on(node, now_us)
