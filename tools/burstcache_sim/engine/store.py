"""Compiled LRU store of a node: objects by key.

Without a capacity limit (`FOREVER_US`), the store tracks no order of use and evicts nothing.
"""

from __future__ import annotations

from burstcache_sim.engine.books import FOREVER_US, Records
from burstcache_sim.engine.compiled import inlined, uncounted
from burstcache_sim.engine.lists import USES, append, first, remove


@uncounted
def hold(nodes: Records, node: int, keys: Records, key: int, capacity_bytes: int) -> None:
    """Store a key's object. The caller must evict objects until `overflow` returns no key."""
    k, n = keys[key], nodes[node]
    if capacity_bytes == FOREVER_US:
        k.held_bytes = 0
        return
    drop(nodes, node, keys, key, capacity_bytes)
    k.held_bytes = k.size_bytes
    append(nodes, node, keys, key, USES)
    n.used_bytes += k.size_bytes


@inlined
def overflow(nodes: Records, node: int, capacity_bytes: int) -> int:
    """Return the key of the next object to evict, or a number below 0 if all objects fit."""
    return first(nodes, node, USES) if nodes[node].used_bytes > capacity_bytes else -1


@uncounted
def drop(nodes: Records, node: int, keys: Records, key: int, capacity_bytes: int) -> None:
    """Drop a key's object, if it is stored."""
    held_bytes = keys[key].held_bytes
    if held_bytes >= 0:
        keys[key].held_bytes = -1
        if capacity_bytes != FOREVER_US:
            nodes[node].used_bytes -= held_bytes
            remove(nodes, node, keys, key, USES)


@inlined
def use(nodes: Records, node: int, keys: Records, key: int) -> None:
    """Mark a stored object as the most recently used. Call this only with a capacity limit."""
    if nodes[node].ends[USES + 1] != key:
        remove(nodes, node, keys, key, USES)
        append(nodes, node, keys, key, USES)
