"""Copies on nodes, of keys with a life and of guests: a write removes them, and the right to store what is older."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import RedisDownError
from burstcache.core.rows import KeyRow


@dataclass(frozen=True, slots=True)
class NodeCopies:
    """All nodes of the stack on which keys have copies."""

    node_names: Sequence[str]
    nodes: NodeTable
    store: Callable[[str], RedisObjects]  # by the node's name
    clock: Clock

    def drop(self, hash_: str, row: KeyRow | None = None) -> set[str]:
        """Remove the copies of a written object, and the leases of all that load it.

        Args:
            hash_: The key's hash.
            row: The key's, read after the write.

        Returns:
            The nodes that were asked because of the key's life.

        Raises:
            RedisDownError: A node does not answer: old copies may still be read there. All others have been asked.
            ServiceError: DynamoDB fails.
        """
        now_us, of_life, failure = self.clock.now_us(), set[str](), None
        for node in self.nodes.read_many(self.node_names):
            has_life = row is not None and row.may_be_on(node, now_us)
            if not (has_life or node.is_home_of(hash_)):
                continue
            try:
                self.store(node.node).drop(hash_)
            except RedisDownError as error:
                if node.phase != "booting":  # there is nothing in it yet: it is filled once its row says `running`
                    failure = error
            else:
                of_life |= {node.node} if has_life else set()
        if failure is not None:
            raise failure
        return of_life
