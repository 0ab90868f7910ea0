"""The copies of objects on nodes, both seeded and read-through. A write removes them and revokes load leases."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
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
    """The result of dropping objects' copies from nodes.

    Attributes:
        of_life: By hash, the nodes of the key's life that have dropped its copy.
        lost: The rows of nodes that did not answer. Readers with the corrected digest do not use these nodes.
        copies: By hash, the number of nodes that had a copy.
    """

    of_life: Mapping[str, Collection[str]]
    lost: Sequence[NodeRow]
    copies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeCopies:
    """The copies on all nodes of a stack."""

    node_names: Sequence[str]
    nodes: NodeTable
    store: Callable[[str], RedisObjects]  # takes a node's name
    lose: Callable[[NodeRow], NodeRow]  # removes a node from the digest, stops it, and returns its new row
    clock: Clock

    def drop(self, hashes: Sequence[str], rows: Mapping[str, KeyRow]) -> Dropped:
        """Drop the copies of written objects and revoke the leases of their loads, on all nodes concurrently.

        Args:
            hashes: The keys' hashes.
            rows: The keys' rows by hash, read after the writes. A key may have no row.

        Raises:
            ServiceError: DynamoDB fails.
        """
        now_us = self.clock.now_us()
        held = [
            (node, on_node)
            for node in self.nodes.read_many(self.node_names)
            if (on_node := [hash_ for hash_ in hashes if _may_hold(node, hash_, rows.get(hash_), now_us)])
        ]
        all_dropped = run_concurrently(self.clock, *(partial(self._drop_on, node, on_node) for node, on_node in held))
        of_life, lost, copies = defaultdict[str, set[str]](set), [], Counter[str]()
        for (node, on_node), dropped in zip(held, all_dropped, strict=True):
            if dropped is not None:
                copies.update(dropped)
                for hash_ in on_node:
                    if _has_life_on(node, rows.get(hash_), now_us):
                        of_life[hash_].add(node.node)
            elif node.phase != "booting":  # a booting node is empty until its row says `running`
                lost.append(self.lose(node))
        return Dropped(of_life, lost, copies)

    def note_unasked(self, lost: Sequence[NodeRow]) -> None:
        """Record that no reader uses these nodes any more, so that later writes skip them."""
        for node in lost:
            if node.phase == "stopping":
                self.nodes.change(node, unasked_in=node.generation)

    def _drop_on(self, node: NodeRow, hashes: Sequence[str]) -> set[str] | None:
        """Drop copies from one node. Return the hashes of those that it had, or None if it does not answer."""
        had_copy = set[str]()

        def drop() -> None:
            had_copy.update(self.store(node.node).drop(hashes))

        is_dropped = retry_until_answered(drop, RedisDownError, self.clock, once=node.phase != "running")
        return had_copy if is_dropped else None


def _may_hold(node: NodeRow, hash_: str, row: KeyRow | None, now_us: int) -> bool:
    return not node.is_unasked and (_has_life_on(node, row, now_us) or node.is_home_of(hash_))


def _has_life_on(node: NodeRow, row: KeyRow | None, now_us: int) -> bool:
    return row is not None and row.may_be_on(node, now_us)
