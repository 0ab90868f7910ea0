"""Helpers that select a log's keys for a simulation: all keys, or one by rank (thesis, section 5.1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.log_format import LogFormat
from burstcache_sim.traces.ranges import piece_text, split_key
from burstcache_sim.traces.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray


def key_names(ids: Iterable[bytes], format_: LogFormat) -> tuple[str, ...]:
    """Return the keys as text, by id. A key includes the bucket's name only if the log has several buckets.

    A piece's name ends with its range in brackets.
    """
    ids = list(ids)
    pieces = (split_key(key)[1] for key in ids)
    return tuple(name + piece_text(piece) for name, piece in zip(object_names(ids, format_), pieces, strict=True))


def object_names(ids: Iterable[bytes], format_: LogFormat) -> tuple[str, ...]:
    """Return each key's object as text, by id, with the bucket's name only if there are several buckets."""
    objects = [split_key(key)[0].decode("utf-8", "backslashreplace") for key in ids]
    if format_.has_buckets and len({key.partition("/")[0] for key in objects}) == 1:
        objects = [key.partition("/")[2] for key in objects]
    return tuple(objects)


def ranking(counts: NDArray[Any], names: tuple[str, ...]) -> list[int]:
    """Return the ids of all keys, most requested first. Ties are broken by name."""
    numbers = counts.tolist()
    return sorted(range(len(numbers)), key=lambda id_: (-numbers[id_], names[id_]))


def id_of_rank(counts: NDArray[Any], names: tuple[str, ...], rank: int) -> int:
    """Return the id of the rank-th most requested key, from 1.

    Raises:
        InvalidSettingError: The log has no such rank.
    """
    if not 1 <= rank <= len(names):
        raise InvalidSettingError(f"rank {rank}: expected 1 to {len(names)}, the number of keys in the log")
    return ranking(counts, names)[rank - 1]


def of_rank(trace: Trace, rank: int) -> Trace:
    """Return the trace of only the rank-th most requested key.

    Raises:
        InvalidSettingError: The trace has no such rank.
    """
    import numpy as np

    if trace.key_ids is None:
        if rank != 1:
            raise InvalidSettingError(f"rank {rank}: expected 1, the trace has one key")
        return trace
    key_id = id_of_rank(np.bincount(trace.key_ids, minlength=len(trace.keys)), trace.keys, rank)
    kept = trace.key_ids == key_id
    amounts = (trace.sizes_bytes, trace.sent_bytes, trace.object_bytes)
    sizes_bytes, sent_bytes, object_bytes = (None if amount is None else amount[kept] for amount in amounts)
    names = trace.keys[key_id : key_id + 1]
    objects = trace.objects[key_id : key_id + 1]
    return Trace(trace.arrivals_us[kept], None, sizes_bytes, names, None, sent_bytes, object_bytes, objects)


def has_whole_seconds(trace: Trace) -> bool:
    """Return whether all times are whole seconds, so that requests within one second look simultaneous."""
    return len(trace) > 1 and not bool(((trace.arrivals_us - trace.arrivals_us[0]) % US_PER_S).any())
