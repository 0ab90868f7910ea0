"""Tiling of ranges whose offset the log does not show: the parts of an object, one after the other.

Ranges of an object and of equal length count as the same range, which overstates hits. Tiling is the other extreme: a
part is read again only after all others.
"""

from __future__ import annotations

from dataclasses import replace
from re import compile as regex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_LENGTH_ONLY = regex(r" \[(?:\d+ bytes|unknown range)\]")  # `ranges.piece_text`


def tiled(trace: Trace) -> Trace:
    """Return the trace in which each request for a range without an offset reads the part after that of the last one.

    After the last part of an object comes the first, unless the log lacks sizes of objects.
    """
    import numpy as np

    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    ids, count = trace.key_ids.astype(np.int64), len(trace.keys)
    suffixes = (key[len(name) :] for key, name in zip(trace.keys, trace.objects, strict=True))
    is_assumed = np.array([_LENGTH_ONLY.fullmatch(suffix) is not None for suffix in suffixes])
    sizes_bytes = np.maximum(1, trace.largest_bytes(trace.sizes_bytes))
    parts = np.full(len(sizes_bytes), len(trace), np.int64)
    if trace.object_bytes is not None and not trace.unsized_ranges:
        parts = -(-trace.largest_bytes(trace.object_bytes) // sizes_bytes)
    order = np.argsort(ids, kind="stable")
    firsts = np.concatenate(([0], np.cumsum(np.bincount(ids))))[:-1]
    turn = np.empty(len(ids), np.int64)
    turn[order] = np.arange(len(ids)) - firsts[ids[order]]
    part = np.where(is_assumed[ids], turn % parts[ids], 0)
    places, key_ids = np.unique(part * count + ids, return_inverse=True)
    keys, objects = [], []
    for place in places.tolist():
        number, id_ = divmod(place, count)
        first = number * int(sizes_bytes[id_])
        name = trace.objects[id_]
        objects.append(name)
        keys.append(
            f"{name} [bytes {first}-{first + int(sizes_bytes[id_]) - 1}]" if is_assumed[id_] else trace.keys[id_]
        )
    return replace(trace, key_ids=key_ids.astype(np.int32), keys=tuple(keys), objects=tuple(objects), assumed_ranges=0)
