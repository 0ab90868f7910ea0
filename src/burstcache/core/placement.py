"""Which node holds a key: decided once, at the start of a life, and read from the life's row from then on."""

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
    return max(nodes, key=lambda node: hashlib.sha256(f"{node}/{hash_}".encode()).digest())
