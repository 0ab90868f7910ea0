"""Doubly linked lists of a node's keys: its leases, and its objects from least to most recently used.

The links are in the keys' records, and the ends are in the node's record. -1 ends a list. Leases that the next checks
can skip are in separate lists, one per later check (`engine.shared_world`). A key is in at most one list of leases, so
all these lists share the same links.
"""

from __future__ import annotations

from burstcache_sim.engine.books import Records
from burstcache_sim.engine.compiled import inlined, uncounted

# Offset of a list's first and last key in `ends`, and of the previous and next key in `links`. The lists of leases for
# later checks start at LATER, two places apart.
LEASES, USES, LATER = 0, 2, 4


@uncounted
def append(nodes: Records, node: int, keys: Records, key: int, chain: int) -> None:
    """Append a key that is not in the list."""
    last, links = nodes[node].ends[chain + 1], _links(chain)
    keys[key].links[links] = last
    keys[key].links[links + 1] = -1
    if last < 0:
        nodes[node].ends[chain] = key
    else:
        keys[last].links[links + 1] = key
    nodes[node].ends[chain + 1] = key


@uncounted
def remove(nodes: Records, node: int, keys: Records, key: int, chain: int) -> None:
    """Remove a key that is in the list."""
    links = _links(chain)
    before, after = keys[key].links[links], keys[key].links[links + 1]
    if before < 0:
        nodes[node].ends[chain] = after
    else:
        keys[before].links[links + 1] = after
    if after < 0:
        nodes[node].ends[chain + 1] = before
    else:
        keys[after].links[links] = before


@uncounted
def first(nodes: Records, node: int, chain: int) -> int:
    """Return the list's first key, or a number below 0 if the list is empty."""
    return nodes[node].ends[chain]  # type: ignore[no-any-return]


@uncounted
def after(keys: Records, key: int, chain: int) -> int:
    """Return the next key of the list, or a number below 0 after the last one."""
    return keys[key].links[_links(chain) + 1]  # type: ignore[no-any-return]


@inlined
def _links(chain: int) -> int:
    return USES if chain == USES else LEASES
