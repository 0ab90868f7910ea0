"""LRU stack distances of a trace in one pass: the smallest memory with which each request is a hit.

The stack distance of a request is the total size of the distinct objects requested since the previous request for the
same object, including that object. An LRU cache contains a prefix of all objects, ordered by most recent use. It
evicts an object exactly when the cumulative size up to and including the object exceeds the memory. A request is
therefore a hit if and only if its distance is at most the memory, provided that sizes are constant and no object is
larger than the memory.

Source:
    Mattson 1970, "Evaluation techniques for storage hierarchies", with sizes instead of counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.compiled import compiled

NEVER = -1  # the distance of an object's first request

Integers = NDArray[Any]


@compiled
def stack_distances(ids: Integers, sizes_bytes: Integers, is_renewed: Integers) -> tuple[Integers, Integers]:
    """Return the distance of each request, and of each object's first request when the trace repeats.

    Args:
        ids: The object of each request, from 0.
        sizes_bytes: Size of each object [bytes].
        is_renewed: Whether each object gets a new key in each repetition. The old copy is never requested again and is
            evicted like any other object.

    Returns:
        Distance of each request, `NEVER` for first requests [bytes]. Distance of each object's first request in every
        further repetition, in request order, `NEVER` for renewed objects [bytes].
    """
    keys, places = len(sizes_bytes), 2 * (len(sizes_bytes) + is_renewed.sum()) + 1
    tree = np.zeros(places + 1, np.int64)  # Fenwick tree: prefix sums of sizes, least recently used first
    owners, place_of = np.full(places + 1, -1, np.int64), np.zeros(keys, np.int64)
    distances, wrapped = np.empty(len(ids), np.int64), np.empty(keys, np.int64)
    held_bytes, used, firsts = 0, 0, 0
    for turn in range(2):
        for i in range(len(ids)):
            if turn == 1 and distances[i] != NEVER:
                continue  # unchanged: the whole reuse interval lies within the trace
            key = ids[i]
            size_bytes, at = sizes_bytes[key], place_of[key]
            distance = NEVER
            if at > 0 and not (turn == 1 and is_renewed[key]):
                before_bytes, j = 0, at
                while j > 0:
                    before_bytes += tree[j]
                    j -= j & -j
                distance = held_bytes - before_bytes + size_bytes
                j = at
                while j <= places:
                    tree[j] -= size_bytes
                    j += j & -j
                owners[at] = -1
                held_bytes -= size_bytes
            if used == places:  # compact
                used = 0
                tree[:] = 0
                for place in range(1, places + 1):
                    owner = owners[place]
                    owners[place] = -1
                    if owner >= 0:
                        used += 1
                        owners[used] = owner
                        place_of[owner] = used
                        tree[used] = sizes_bytes[owner]
                for place in range(1, places + 1):
                    above = place + (place & -place)
                    if above <= places:
                        tree[above] += tree[place]
            used += 1
            owners[used], place_of[key] = key, used
            held_bytes += size_bytes
            j = used
            while j <= places:
                tree[j] += size_bytes
                j += j & -j
            if turn == 0:
                distances[i] = distance
            else:
                wrapped[firsts] = distance
                firsts += 1
    return distances, wrapped[:firsts]


@compiled
def confirmed_hits(
    times_us: Integers, ids: Integers, distances: Integers, memory_bytes: int, bound_us: int, keys: int
) -> int:
    """Count the hits if S3 must have confirmed the object within a staleness bound.

    Args:
        times_us: Time of each request [us].
        ids: Object of each request, from 0.
        distances: Distance of each request (`stack_distances`) [bytes].
        memory_bytes: Memory of the cache [bytes].
        bound_us: Time for which a confirmation by S3 is valid [us].
        keys: Number of objects.
    """
    confirmed_us = np.full(keys, -1, np.int64)
    hits = 0
    for i in range(len(ids)):
        key = ids[i]
        is_held = distances[i] != NEVER and distances[i] <= memory_bytes
        if is_held and times_us[i] - confirmed_us[key] <= bound_us:
            hits += 1
        else:
            confirmed_us[key] = times_us[i]
    return hits
