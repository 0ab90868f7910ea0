"""Placement of keys on nodes by rendezvous hashing.

A key with a life gets its node at the life's start, and its row stores the node. A read-through entry (guest) has a
home node for each run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def node_for(hash_: str, nodes: Sequence[str]) -> str:
    """Return the home node of a key.

    Args:
        hash_: The key's hash.
        nodes: Names of all nodes, at least one, in any order.

    Source:
        Thaler, Ravishankar, "Using name-based mappings to increase hit rates", 1998: highest random weight.
    """
    if len(nodes) == 1:  # the most frequent case, on every read of a read-through entry
        return nodes[0]
    return max(nodes, key=lambda node: node_weight(node, hash_))


def node_weight(node: str, hash_: str) -> bytes:
    """Return a node's weight for a key, 32 bytes. The node with the highest weight is the key's home."""
    return hashlib.sha256(f"{node}/{hash_}".encode()).digest()


def is_home(node: str, hash_: str, peers: Sequence[str]) -> bool:
    """Return whether a node is a key's home in a run with these peers. Without peers, a key has no home."""
    return node in peers and node_for(hash_, peers) == node
