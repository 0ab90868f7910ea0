"""Optional columns of a trace that must have them."""

from __future__ import annotations

from burstcache_sim.traces.trace import KeySample, Trace


def keys_of(trace: Trace) -> list[str]:
    """Return each request's key."""
    assert trace.key_ids is not None
    return [trace.keys[id_] for id_ in trace.key_ids]


def sizes_of(trace: Trace) -> list[int]:
    """Return the size of each request's object [bytes]."""
    assert trace.sizes_bytes is not None
    return [int(size_bytes) for size_bytes in trace.sizes_bytes]


def quarter_of(trace: Trace) -> Trace:
    """Return the sample of a trace that contains every fourth key."""
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    is_kept = trace.key_ids % 4 == 1
    return Trace(
        trace.arrivals_us[is_kept], trace.key_ids[is_kept], trace.sizes_bytes[is_kept], trace.keys,
        KeySample(0.25, len(trace)),
    )  # fmt: skip
