"""One key under many candidates, and requests brought into the keys' order, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.books import COUNTS, END_US, Integers
from burstcache_sim.engine.breakeven import breakeven
from burstcache_sim.engine.compiled import compiled
from burstcache_sim.engine.thesis import thesis

Keys = NDArray[np.int32]


@compiled
def order_by_key(t: Integers, key_ids: Keys, key_count: int) -> tuple[Integers, Integers]:
    """Return where each key's requests begin (and at the end how many there are), and their arrivals, keys in order."""
    begins = np.zeros(key_count + 1, np.int64)
    for key_id in key_ids:
        begins[key_id + 1] += 1
    for key_id in range(key_count):
        begins[key_id + 1] += begins[key_id]
    places = begins[:-1].copy()
    ordered = np.empty(len(t), np.int64)
    for i in range(len(t)):
        key_id = key_ids[i]
        ordered[places[key_id]] = t[i]
        places[key_id] += 1
    return begins, ordered


@compiled
def replay_candidate(t: Integers, horizon_us: int, p: Integers, is_thesis: bool, spans: Integers) -> Integers:
    """Return the counts of one candidate over one key."""
    counts = np.zeros(COUNTS, np.int64)
    if len(t):
        counts[END_US] = t[-1]
    if is_thesis:
        thesis(t, horizon_us, p, counts, spans)
    else:
        breakeven(t, horizon_us, p, counts, spans)
    return counts
