"""Which node holds a key: a life's is decided at its start and stands in its row, a guest has its home for a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def node_for(hash_: str, nodes: Sequence[str]) -> str:
    """Return the node that a key belongs to, by rendezvous hashing.

    Args:
        hash_: The key's hash.
        nodes: Names of all nodes, at least one, in any order.

    Source:
        Thaler, Ravishankar, "Using name-based mappings to increase hit rates", 1998: highest random weight.
    """
    if len(nodes) == 1:  # the most frequent case, at each read of a guest
        return nodes[0]
    return max(nodes, key=lambda node: node_weight(node, hash_))


def node_weight(node: str, hash_: str) -> bytes:
    """Return a node's weight for a key, 32 bytes: the node with the highest one holds the key."""
    return hashlib.sha256(f"{node}/{hash_}".encode()).digest()


def is_home(node: str, hash_: str, peers: Sequence[str]) -> bool:
    """Whether a key is a guest of this node in a run with these peers; without peers the run takes no guests."""
    return node in peers and node_for(hash_, peers) == node
