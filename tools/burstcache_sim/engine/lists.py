"""Doubly linked lists of keys, one per node: which keys have a lease, or which object was used least recently."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from burstcache_sim.engine.books import Integers
from burstcache_sim.engine.compiled import uncounted

BEFORE, AFTER = 0, 1  # columns of the links: the key's neighbours, -1: none
FIRST, LAST = 0, 1  # columns of the ends: of each node's list, -1: it is empty


class Lists(NamedTuple):
    """The links of all keys and the ends of all nodes' lists."""

    links: Integers
    ends: Integers


def empty_lists(key_count: int, node_count: int) -> Lists:
    """Return lists without keys."""
    return Lists(np.full((key_count, 2), -1, np.int64), np.full((node_count, 2), -1, np.int64))


@uncounted
def append(lists: Lists, node: int, key: int) -> None:
    """Add a key that is not in the node's list."""
    last = lists.ends[node, LAST]
    lists.links[key, BEFORE] = last
    lists.links[key, AFTER] = -1
    if last < 0:
        lists.ends[node, FIRST] = key
    else:
        lists.links[last, AFTER] = key
    lists.ends[node, LAST] = key


@uncounted
def remove(lists: Lists, node: int, key: int) -> None:
    """Take a key that is in the node's list out of it."""
    before, after = lists.links[key, BEFORE], lists.links[key, AFTER]
    if before < 0:
        lists.ends[node, FIRST] = after
    else:
        lists.links[before, AFTER] = after
    if after < 0:
        lists.ends[node, LAST] = before
    else:
        lists.links[after, BEFORE] = before
