"""Compiled heap of due times at which cache functions end: pairs (time, key), at most one per key.

An entry may be too early but never too late. Extending a life leaves its entry unchanged, and the key is checked again
when its entry reaches the top. Extensions therefore cost nothing.
"""

from __future__ import annotations

from burstcache_sim.engine.books import Integers
from burstcache_sim.engine.compiled import uncounted

# queue[0, 0] is the number of entries. Entry i, from 1, is queue[i]: a time [us] and a key. places[key] is the key's i,
# or 0 without an entry.


@uncounted
def set_due(queue: Integers, places: Integers, key: int, due_us: int) -> None:
    """Insert a key, or move its entry to an earlier time."""
    place = places[key]
    if place == 0:
        queue[0, 0] += 1
        place = queue[0, 0]
    elif due_us >= queue[place, 0]:
        return
    _rise(queue, places, place, due_us, key)


@uncounted
def put_first_off(queue: Integers, places: Integers, due_us: int) -> None:
    """Postpone the first entry."""
    _sink(queue, places, due_us, queue[1, 1])


@uncounted
def drop_first(queue: Integers, places: Integers) -> None:
    """Remove the first entry."""
    places[queue[1, 1]] = 0
    last = queue[0, 0]
    queue[0, 0] = last - 1
    if last > 1:
        _sink(queue, places, queue[last, 0], queue[last, 1])


@uncounted
def _rise(queue: Integers, places: Integers, place: int, due_us: int, key: int) -> None:
    while place > 1:
        above = place >> 1
        if queue[above, 0] < due_us or (queue[above, 0] == due_us and queue[above, 1] < key):
            break
        _write(queue, places, place, queue[above, 0], queue[above, 1])
        place = above
    _write(queue, places, place, due_us, key)


@uncounted
def _sink(queue: Integers, places: Integers, due_us: int, key: int) -> None:
    place, count = 1, queue[0, 0]
    while 2 * place <= count:
        below = 2 * place
        if below < count and (
            queue[below + 1, 0] < queue[below, 0]
            or (queue[below + 1, 0] == queue[below, 0] and queue[below + 1, 1] < queue[below, 1])
        ):
            below += 1
        if due_us < queue[below, 0] or (due_us == queue[below, 0] and key < queue[below, 1]):
            break
        _write(queue, places, place, queue[below, 0], queue[below, 1])
        place = below
    _write(queue, places, place, due_us, key)


@uncounted
def _write(queue: Integers, places: Integers, place: int, due_us: int, key: int) -> None:
    queue[place, 0], queue[place, 1] = due_us, key
    places[key] = place
