"""Names derived from an object key: its hash, its node, the names of executions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def key_hash(key: str) -> str:
    """Return the 32 hex digits that stand for `key` in row keys, subjects and execution names.

    Execution names allow 80 characters and few kinds; 128 bits keep two keys from meeting.
    """
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def node_for(hash_: str, nodes: Sequence[str]) -> str:
    """Return the node that a key belongs to, by rendezvous hashing.

    Args:
        hash_: The key's hash.
        nodes: Names of all nodes, at least one, in any order.

    Source:
        Thaler, Ravishankar, "Using name-based mappings to increase hit rates", 1998: highest random weight.
    """
    return max(nodes, key=lambda node: hashlib.sha256(f"{node}/{hash_}".encode()).digest())


def key_execution_name(hash_: str, epoch: int) -> str:
    """Return the one name that the execution of a key's life may have: a second start is absorbed."""
    return f"{hash_}-{epoch}"


def node_execution_name(node: str, generation: int, part: int) -> str:
    """Return the name of one part of a node's life (it continues in a new part after 2,000 checks)."""
    return f"{node}-{generation}-{part}"
