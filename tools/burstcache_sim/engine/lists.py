"""Two doubly linked lists of keys per node: which keys have a lease, and which object was used least recently.

Both are chained through the keys' records; a node's record has the ends. -1 ends a chain.
"""

from __future__ import annotations

from burstcache_sim.engine.books import Records
from burstcache_sim.engine.compiled import uncounted

# Places of a list: its first and last key in `ends`, and in `links` the keys before and after.
LEASES, USES = 0, 2


@uncounted
def append(nodes: Records, node: int, keys: Records, key: int, chain: int) -> None:
    """Add a key that is not in the list."""
    last = nodes[node].ends[chain + 1]
    keys[key].links[chain] = last
    keys[key].links[chain + 1] = -1
    if last < 0:
        nodes[node].ends[chain] = key
    else:
        keys[last].links[chain + 1] = key
    nodes[node].ends[chain + 1] = key


@uncounted
def remove(nodes: Records, node: int, keys: Records, key: int, chain: int) -> None:
    """Take a key that is in the list out of it."""
    before, after = keys[key].links[chain], keys[key].links[chain + 1]
    if before < 0:
        nodes[node].ends[chain] = after
    else:
        keys[before].links[chain + 1] = after
    if after < 0:
        nodes[node].ends[chain + 1] = before
    else:
        keys[after].links[chain] = before


@uncounted
def first(nodes: Records, node: int, chain: int) -> int:
    """Return the list's first key, below 0 if it is empty."""
    return nodes[node].ends[chain]  # type: ignore[no-any-return]


@uncounted
def after(keys: Records, key: int, chain: int) -> int:
    """Return the next key of the list, below 0 after the last one."""
    return keys[key].links[chain + 1]  # type: ignore[no-any-return]
