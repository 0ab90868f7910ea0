"""The places where readers look for a key first, apart from their own memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from burstcache.core.placement import is_home
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.queries.routes import route_view

# A guest is a read-through entry: a key without a life, on its running home node. A run's first read fills the entry.
Place = Literal["s3", "lambda", "redis", "guest"]


def node_of(row: KeyRow, nodes: Collection[NodeRow], now_us: int) -> NodeRow | None:
    """Return the node of a key's life, or else its running home node, or None if there is neither."""
    if row.is_live(now_us) and (own := [node for node in nodes if node.node == row.node]):
        return own[0]
    newest_first = sorted(nodes, key=lambda node: node.generation, reverse=True)
    running = (node for node in newest_first if node.phase_at(now_us) == "running")
    return next((node for node in running if node.is_home_of(row.hash)), None)


def is_ever_guest(hash_: str, nodes: Collection[NodeRow]) -> bool:
    """Return whether a node accepts the key as a read-through entry in its newest run.

    Otherwise, only the key's own life puts the object into Redis.
    """
    return any(is_home(node.node, hash_, node.peers) for node in nodes)


def place_of(row: KeyRow, node: NodeRow | None, now_us: int, *, max_object_bytes: int) -> Place:
    """Return the place that readers try first, according to their digest.

    Args:
        row: The key's row.
        node: The result of `node_of`, or any other node that is not running.
        now_us: The instant [us].
        max_object_bytes: The largest object that a faster tier accepts [bytes].
    """
    if row.is_live(now_us) and row.tier and not route_view(row, node, now_us).problem:
        return row.tier
    is_taken = node is not None and node.phase_at(now_us) == "running" and node.is_home_of(row.hash)
    return "guest" if is_taken and row.size_bytes <= max_object_bytes else "s3"
