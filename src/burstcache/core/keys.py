"""Names derived from an object key or a node: a hash, the names of executions."""

from __future__ import annotations

import hashlib


def key_hash(key: str) -> str:
    """Return the 32 hex digits that stand for `key` in row keys, subjects and execution names.

    Execution names allow 80 characters and few kinds; 128 bits keep two keys from meeting.
    """
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def next_number(former: int, *, now_us: int) -> int:
    """Return the epoch after `former`, or the generation: the time in ms, unless that is not beyond `former`.

    So a row that expired or a table made anew does not lead to execution names that Step Functions still reserves.
    """
    return max(former + 1, now_us // 1000)


def key_execution_name(hash_: str, epoch: int) -> str:
    """Return the one name that the execution of a key's life may have: a second start is absorbed."""
    return f"{hash_}-{epoch}"


def node_execution_name(node: str, generation: int, part: int) -> str:
    """Return the name of one part of a node's life (it continues in a new part after 2,000 checks)."""
    return f"{node}-{generation}-{part}"
