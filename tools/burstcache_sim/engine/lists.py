"""Two doubly linked lists of keys per node: which keys have a lease, and which object was used least recently.

A list's ends stand in its node's row, its links in the keys' rows; -1 ends a chain.
"""

from __future__ import annotations

from burstcache_sim.engine.books import Integers
from burstcache_sim.engine.compiled import uncounted

# Where a list's first key stands in a node's row; its last one follows.
LEASES, USES = 0, 2
_LINKS = 12  # in a key's row: before and after, of leases, then of uses


@uncounted
def append(nodes: Integers, node: int, keys: Integers, key: int, chain: int) -> None:
    """Add a key that is not in the list."""
    last = nodes[node, chain + 1]
    keys[key, _LINKS + chain] = last
    keys[key, _LINKS + chain + 1] = -1
    if last < 0:
        nodes[node, chain] = key
    else:
        keys[last, _LINKS + chain + 1] = key
    nodes[node, chain + 1] = key


@uncounted
def remove(nodes: Integers, node: int, keys: Integers, key: int, chain: int) -> None:
    """Take a key that is in the list out of it."""
    before, after = keys[key, _LINKS + chain], keys[key, _LINKS + chain + 1]
    if before < 0:
        nodes[node, chain] = after
    else:
        keys[before, _LINKS + chain + 1] = after
    if after < 0:
        nodes[node, chain + 1] = before
    else:
        keys[after, _LINKS + chain] = before


@uncounted
def after(keys: Integers, key: int, chain: int) -> int:
    """Return the next key of the list, below 0 after the last one."""
    return keys[key, _LINKS + chain + 1]  # type: ignore[no-any-return]
