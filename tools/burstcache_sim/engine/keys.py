"""Many keys, each with nodes of its own, compiled: the requests are brought into the keys' order first."""

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
def replay_keys(
    begins: Integers, ordered: Integers, horizon_us: int, p: Integers, is_thesis: bool, spans: Integers
) -> Integers:
    """Return the counts of every key, a row each."""
    counts = np.zeros((len(begins) - 1, COUNTS), np.int64)
    for key_id in range(len(begins) - 1):
        t = ordered[begins[key_id] : begins[key_id + 1]]
        if len(t) == 0:
            continue
        counts[key_id, END_US] = t[-1]
        if is_thesis:
            thesis(t, horizon_us, p, counts[key_id], spans)
        else:
            breakeven(t, horizon_us, p, counts[key_id], spans)
    return counts


@compiled
def replay_candidates(
    t: Integers, horizon_us: int, candidates: Integers, is_thesis: Integers, spans: Integers
) -> Integers:
    """Return the counts of every candidate (a row of parameters) over one key, a row each."""
    counts = np.zeros((len(candidates), COUNTS), np.int64)
    for row in range(len(candidates)):
        if len(t):
            counts[row, END_US] = t[-1]
        if is_thesis[row]:
            thesis(t, horizon_us, candidates[row], counts[row], spans)
        else:
            breakeven(t, horizon_us, candidates[row], counts[row], spans)
    return counts
