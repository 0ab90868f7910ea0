"""Where readers look for a key first, apart from their own memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from burstcache.core.placement import is_home
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.queries.routes import route_view

# A guest is asked for at its running home without a life of its own; the first read of a run brings it there.
Place = Literal["s3", "lambda", "redis", "guest"]


def node_of(row: KeyRow, nodes: Collection[NodeRow], now_us: int) -> NodeRow | None:
    """Return the node of a key: that of its life, else the running one that takes it as a guest; None: neither."""
    if row.is_live(now_us) and (own := [node for node in nodes if node.node == row.node]):
        return own[0]
    newest_first = sorted(nodes, key=lambda node: node.generation, reverse=True)
    running = (node for node in newest_first if node.phase_at(now_us) == "running")
    return next((node for node in running if node.is_home_of(row.hash)), None)


def is_ever_guest(hash_: str, nodes: Collection[NodeRow]) -> bool:
    """Whether the newest run of a node takes a key as a guest; if none does, Redis serves it by its lives alone."""
    return any(is_home(node.node, hash_, node.peers) for node in nodes)


def place_of(row: KeyRow, node: NodeRow | None, now_us: int, *, max_object_bytes: int) -> Place:
    """Return where readers ask first, as their digest has it.

    Args:
        row: The key's row.
        node: What `node_of` found, or any other node that does not run.
        now_us: The instant [us].
        max_object_bytes: What a faster tier takes [bytes].
    """
    if row.is_live(now_us) and row.tier and not route_view(row, node, now_us).problem:
        return row.tier
    is_taken = node is not None and node.phase_at(now_us) == "running" and node.is_home_of(row.hash)
    return "guest" if is_taken and row.size_bytes <= max_object_bytes else "s3"
