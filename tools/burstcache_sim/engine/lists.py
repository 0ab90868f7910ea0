"""Doubly linked lists of keys per node: which keys have a lease, and which object was used least recently.

They are chained through the keys' records; a node's record has the ends. -1 ends a chain. Where a policy checks leases,
those that a check need not look at yet wait in lists of their own, one for each of the checks to come
(`engine.shared_world`): a key is in one list of leases at most, and all of them use the same links.
"""

from __future__ import annotations

from burstcache_sim.engine.books import Records
from burstcache_sim.engine.compiled import inlined, uncounted

# Places of a list: its first and last key in `ends`, and in `links` the keys before and after. From LATER on there are
# more lists of leases, each two places after the one before.
LEASES, USES, LATER = 0, 2, 4


@uncounted
def append(nodes: Records, node: int, keys: Records, key: int, chain: int) -> None:
    """Add a key that is not in the list."""
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
    """Take a key that is in the list out of it."""
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
    """Return the list's first key, below 0 if it is empty."""
    return nodes[node].ends[chain]  # type: ignore[no-any-return]


@uncounted
def after(keys: Records, key: int, chain: int) -> int:
    """Return the next key of the list, below 0 after the last one."""
    return keys[key].links[_links(chain) + 1]  # type: ignore[no-any-return]


@inlined
def _links(chain: int) -> int:
    return USES if chain == USES else LEASES
