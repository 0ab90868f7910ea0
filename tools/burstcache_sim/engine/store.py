"""What a node holds, compiled: objects of keys; the least recently used ones leave if another does not fit.

Without a limit (`FOREVER_US` as the capacity) there is no order of use and nothing leaves.
"""

from __future__ import annotations

from burstcache_sim.engine.books import FOREVER_US, Records
from burstcache_sim.engine.compiled import inlined, uncounted
from burstcache_sim.engine.lists import USES, append, first, remove


@uncounted
def put(nodes: Records, node: int, keys: Records, key: int, capacity_bytes: int) -> None:
    """Hold a key's object; the least recently used ones leave if it does not fit."""
    hold(nodes, node, keys, key, capacity_bytes)
    leaves = overflow(nodes, node, capacity_bytes)
    while leaves >= 0:
        drop(nodes, node, keys, leaves, capacity_bytes)
        leaves = overflow(nodes, node, capacity_bytes)


@uncounted
def hold(nodes: Records, node: int, keys: Records, key: int, capacity_bytes: int) -> None:
    """Hold a key's object, and perhaps more than fits; `put` without its second half."""
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
    """Return the key whose object leaves next, because they do not all fit; below 0 if they do."""
    return first(nodes, node, USES) if nodes[node].used_bytes > capacity_bytes else -1


@uncounted
def drop(nodes: Records, node: int, keys: Records, key: int, capacity_bytes: int) -> None:
    """Hold a key's object no longer, if it is held."""
    held_bytes = keys[key].held_bytes
    if held_bytes >= 0:
        keys[key].held_bytes = -1
        if capacity_bytes != FOREVER_US:
            nodes[node].used_bytes -= held_bytes
            remove(nodes, node, keys, key, USES)


@inlined
def use(nodes: Records, node: int, keys: Records, key: int) -> None:
    """Make a held object the most recently used one; only with a limit."""
    if nodes[node].ends[USES + 1] != key:
        remove(nodes, node, keys, key, USES)
        append(nodes, node, keys, key, USES)
