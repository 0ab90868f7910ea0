"""How much memory an LRU cache must have for each request of a trace to be a hit, in one pass.

The distance of a request is the size of all objects asked for since the last request for its own, its own included.
A cache that drops the least recently used objects until a new one fits holds a prefix of the objects in the order of
their last use; an object is dropped exactly when the sizes up to its own exceed the memory. So a request is a hit if
and only if its distance is at most the memory, as long as no object is larger than the memory and sizes are constant.

Source:
    Mattson 1970, "Evaluation techniques for storage hierarchies"; sums of sizes instead of counts.
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
    """Return the distance of each request, and of each object's first request when the trace comes a second time.

    Args:
        ids: The object of each request, from 0.
        sizes_bytes: Size of each object [bytes].
        is_renewed: Whether each object comes under another name in each repetition. Its former copy is never asked
            for again, and leaves like any other.

    Returns:
        Distances in the order of the requests, `NEVER` for first ones [bytes]; then, in the order of their first
        requests, what these have in every further repetition, `NEVER` if renewed [bytes].
    """
    keys, places = len(sizes_bytes), 2 * (len(sizes_bytes) + is_renewed.sum()) + 1
    tree = np.zeros(places + 1, np.int64)  # Fenwick's: sums of sizes over places in the order of last use
    owners, place_of = np.full(places + 1, -1, np.int64), np.zeros(keys, np.int64)
    distances, wrapped = np.empty(len(ids), np.int64), np.empty(keys, np.int64)
    held_bytes, used, firsts = 0, 0, 0
    for turn in range(2):
        for i in range(len(ids)):
            if turn == 1 and distances[i] != NEVER:
                continue  # the same as the first time: what was asked for in between lies within the trace
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
            if used == places:  # close the gaps
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
    """Return how many requests memory answers if S3 must have confirmed the object within a bound.

    Args:
        times_us: When each request comes [us].
        ids: Its object, from 0.
        distances: Its distance (`stack_distances`) [bytes].
        memory_bytes: The memory [bytes].
        bound_us: How long an answer of S3 counts [us].
        keys: How many objects there are.
    """
    asked_us = np.full(keys, -1, np.int64)
    hits = 0
    for i in range(len(ids)):
        key = ids[i]
        is_held = distances[i] != NEVER and distances[i] <= memory_bytes
        if is_held and times_us[i] - asked_us[key] <= bound_us:
            hits += 1
        else:
            asked_us[key] = times_us[i]
    return hits
