"""The optional columns of a trace that must have them."""

from __future__ import annotations

from burstcache_sim.traces.trace import Trace


def keys_of(trace: Trace) -> list[str]:
    """Return each request's key."""
    assert trace.key_ids is not None
    return [trace.keys[id_] for id_ in trace.key_ids]


def sizes_of(trace: Trace) -> list[int]:
    """Return the size of each request's object [bytes]."""
    assert trace.sizes_bytes is not None
    return [int(size_bytes) for size_bytes in trace.sizes_bytes]
