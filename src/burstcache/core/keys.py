"""Names derived from keys and nodes: hashes and execution names."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_SLUG_LENGTH = 40  # keeps names, with hash and epoch, below the 80 characters that Step Functions allows
_END_LENGTH = 19  # characters kept from each end of a longer key
_HASH_DIGITS = 16


def key_hash(key: str) -> str:
    """Return the hash of `key` for row keys and subjects: 32 hex digits. Collisions are negligible at 128 bits."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def next_number(former: int, *, now_us: int) -> int:
    """Return the epoch or generation after `former`: the time in ms, or `former` + 1 if that is greater.

    The clock keeps execution names unique even after a row has expired or the table was recreated, because Step
    Functions still reserves old names.
    """
    return max(former + 1, now_us // 1000)


def slug(key: str) -> str:
    """Return a readable form of `key`, at most 40 letters, digits, `_` and `-`. A longer key keeps only its two ends.

    Accents and letters without an ASCII form are dropped, so the slug may be empty.
    """
    plain = unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode()
    words = re.sub(r"[^0-9A-Za-z_]+", "-", plain).strip("-")
    if len(words) <= _SLUG_LENGTH:
        return words
    return f"{words[:_END_LENGTH].rstrip('-')}--{words[-_END_LENGTH:].lstrip('-')}"


def key_execution_name(key: str, hash_: str, epoch: int) -> str:
    """Return the execution name of a key's life. The name makes the start of the execution idempotent.

    The name begins with the key, which makes lists of executions readable. The hash and the epoch make it unique.
    """
    return "-".join(filter(None, [slug(key), hash_[:_HASH_DIGITS], str(epoch)]))


def is_life_of(execution_name: str, hash_: str) -> bool:
    """Return whether an execution name belongs to a life of the key with this hash."""
    return execution_name.split("-")[-2:-1] == [hash_[:_HASH_DIGITS]]


def node_execution_name(node: str, generation: int, part: int) -> str:
    """Return the execution name of one part of a node's run. After 2,000 checks, the run continues in a new part."""
    return f"{node}-{generation}-{part}"


def pool_execution_name(generation: int, part: int) -> str:
    """Return the execution name of one part of the pool's keep-alive."""
    return f"pool-{generation}-{part}"
