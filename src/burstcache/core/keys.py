"""Names derived from an object key or a node: a hash, the names of executions."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_SLUG_LENGTH = 40  # with the hash and the epoch a name stays below the 80 characters that Step Functions allows
_END_LENGTH = 19  # of a longer key both ends are shown
_HASH_DIGITS = 16


def key_hash(key: str) -> str:
    """Return the 32 hex digits that stand for `key` in row keys and subjects: 128 bits keep two keys from meeting."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def next_number(former: int, *, now_us: int) -> int:
    """Return the epoch after `former`, or the generation: the time in ms, unless that is not beyond `former`.

    So a row that expired or a table made anew does not lead to execution names that Step Functions still reserves.
    """
    return max(former + 1, now_us // 1000)


def slug(key: str) -> str:
    """Return what a person recognizes `key` by, in letters, digits, `_` and `-`: at most 40, of a longer key both ends.

    Accents are left out, and so is whatever has no letter of ASCII: an empty slug is possible.
    """
    plain = unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode()
    words = re.sub(r"[^0-9A-Za-z_]+", "-", plain).strip("-")
    if len(words) <= _SLUG_LENGTH:
        return words
    return f"{words[:_END_LENGTH].rstrip('-')}--{words[-_END_LENGTH:].lstrip('-')}"


def key_execution_name(key: str, hash_: str, epoch: int) -> str:
    """Return the one name that the execution of a key's life may have: a second start is absorbed.

    It begins with the key, so that a list of executions can be read; the hash and the epoch make it unique.
    """
    return "-".join(filter(None, [slug(key), hash_[:_HASH_DIGITS], str(epoch)]))


def is_life_of(execution_name: str, hash_: str) -> bool:
    """Whether an execution is a life of the key with that hash, by its name."""
    return execution_name.split("-")[-2:-1] == [hash_[:_HASH_DIGITS]]


def node_execution_name(node: str, generation: int, part: int) -> str:
    """Return the name of one part of a node's life (it continues in a new part after 2,000 checks)."""
    return f"{node}-{generation}-{part}"


def pool_execution_name(generation: int, part: int) -> str:
    """Return the name of one part of a time in which the pool is kept alive."""
    return f"pool-{generation}-{part}"
