"""Copies on nodes, of keys with a life and of guests: a write removes them, and the right to store what is older."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.insisting import insist
from burstcache.core.errors import RedisDownError
from burstcache.core.rows import KeyRow, NodeRow


@dataclass(frozen=True, slots=True)
class Dropped:
    """What became of the copies of one object on nodes.

    `of_life` are the nodes that were asked because of the key's life and have let it go. `lost` are the rows of those
    that did not answer, from which no reader that learns of it now asks for anything.
    """

    of_life: set[str]
    lost: Sequence[NodeRow]


@dataclass(frozen=True, slots=True)
class NodeCopies:
    """All nodes of the stack on which keys have copies."""

    node_names: Sequence[str]
    nodes: NodeTable
    store: Callable[[str], RedisObjects]  # by the node's name
    lose: Callable[[NodeRow], NodeRow]  # takes a node off the digest and has it stop, whatever it does; its row then
    clock: Clock

    def drop(self, hash_: str, row: KeyRow | None = None) -> Dropped:
        """Remove the copies of a written object, and the leases of all that load it.

        Args:
            hash_: The key's hash.
            row: The key's, read after the write.

        Raises:
            ServiceError: DynamoDB fails.
        """
        now_us, of_life, silent = self.clock.now_us(), set[str](), []
        for node in self.nodes.read_many(self.node_names):
            has_life = row is not None and row.may_be_on(node, now_us)
            if node.is_unasked or not (has_life or node.is_home_of(hash_)):
                continue
            if self._has_let_go(node, hash_):
                of_life |= {node.node} if has_life else set()
            elif node.phase != "booting":  # there is nothing in it yet: it is filled once its row says `running`
                silent.append(node)
        return Dropped(of_life, [self.lose(node) for node in silent])

    def note_unasked(self, lost: Sequence[NodeRow]) -> None:
        """Note that no reader asks these nodes any more, so that later writes need not."""
        for node in lost:
            if node.phase == "stopping":
                self.nodes.change(node, unasked_in=node.generation)

    def _has_let_go(self, node: NodeRow, hash_: str) -> bool:
        def drop() -> None:
            self.store(node.node).drop(hash_)

        return insist(drop, RedisDownError, self.clock, once=node.phase != "running")
