"""Copies on nodes, of keys with a life and of guests: a write removes them, and the right to store what is older."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from burstcache.adapters.clock import Clock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.insisting import insist
from burstcache.control.together import do_together
from burstcache.core.errors import RedisDownError
from burstcache.core.rows import KeyRow, NodeRow


@dataclass(frozen=True, slots=True)
class Dropped:
    """What became of the copies of one object on nodes.

    `of_life` are the nodes that were asked because of the key's life and have let it go. `lost` are the rows of those
    that did not answer, from which no reader that learns of it now asks for anything. `copies` is the number of nodes
    that had one.
    """

    of_life: set[str]
    lost: Sequence[NodeRow]
    copies: int


@dataclass(frozen=True, slots=True)
class NodeCopies:
    """All nodes of the stack on which keys have copies."""

    node_names: Sequence[str]
    nodes: NodeTable
    store: Callable[[str], RedisObjects]  # by the node's name
    lose: Callable[[NodeRow], NodeRow]  # takes a node off the digest and has it stop, whatever it does; its row then
    clock: Clock

    def drop(self, hash_: str, row: KeyRow | None = None) -> Dropped:
        """Remove the copies of a written object, and the leases of all that load it, on all nodes at the same time.

        Args:
            hash_: The key's hash.
            row: The key's, read after the write.

        Raises:
            ServiceError: DynamoDB fails.
        """
        now_us = self.clock.now_us()
        asked = [node for node in self.nodes.read_many(self.node_names) if _may_hold(node, hash_, row, now_us)]
        had_one = set[str]()
        have_let_go = do_together(self.clock, *(partial(self._has_let_go, node, hash_, had_one) for node in asked))
        of_life, lost = set[str](), []
        for node, has_let_go in zip(asked, have_let_go, strict=True):
            if has_let_go and _has_life_on(node, row, now_us):
                of_life.add(node.node)
            elif not has_let_go and node.phase != "booting":  # there is nothing in it before its row says `running`
                lost.append(self.lose(node))
        return Dropped(of_life, lost, len(had_one))

    def note_unasked(self, lost: Sequence[NodeRow]) -> None:
        """Note that no reader asks these nodes any more, so that later writes need not."""
        for node in lost:
            if node.phase == "stopping":
                self.nodes.change(node, unasked_in=node.generation)

    def _has_let_go(self, node: NodeRow, hash_: str, had_one: set[str]) -> bool:
        def drop() -> None:
            if self.store(node.node).drop(hash_):
                had_one.add(node.node)

        return insist(drop, RedisDownError, self.clock, once=node.phase != "running")


def _may_hold(node: NodeRow, hash_: str, row: KeyRow | None, now_us: int) -> bool:
    return not node.is_unasked and (_has_life_on(node, row, now_us) or node.is_home_of(hash_))


def _has_life_on(node: NodeRow, row: KeyRow | None, now_us: int) -> bool:
    return row is not None and row.may_be_on(node, now_us)
