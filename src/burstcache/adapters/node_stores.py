"""Stores of Redis objects by node. A task's address is in its node's row, and differs in each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from burstcache.access import RedisNode, node_named
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects


@dataclass(frozen=True, slots=True)
class NodeStores:
    """The stores of all nodes, one per address. A call returns a node's store."""

    redis_nodes: tuple[RedisNode, ...]
    rows: NodeTable
    make: Callable[[RedisNode], RedisObjects]
    _made: dict[str, tuple[RedisNode, RedisObjects]] = field(default_factory=dict)

    def __call__(self, name: str) -> RedisObjects:
        """Return a node's store. Without an address, each of its operations raises RedisDownError.

        Raises:
            NodeAbsentError: There is no such node.
            ServiceError: DynamoDB fails.
        """
        node = node_named(name, self.redis_nodes)
        if node.is_task:
            node = replace(node, host=self.rows.read(name).host)
        made = self._made.get(name)
        if made is None or made[0] != node:  # another thread may still use the former run's store
            made = self._made[name] = node, self.make(node)
        return made[1]
