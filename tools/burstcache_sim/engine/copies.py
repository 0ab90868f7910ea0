"""Copies in a faster bucket: made at an object's k-th read from S3, dropped when nobody has read them for long."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from burstcache_sim.engine.compiled import compiled

# Columns of the books, a row per pass.
SERVED, COPIES, SERVED_BYTES, COPIED_BYTES, HELD_BYTE_US = range(5)

Numbers = NDArray[Any]


@compiled
def keep_copies(
    times_us: Numbers,
    ids: Numbers,
    sizes_bytes: Numbers,
    copy_at: Numbers,
    drop_after_us: Numbers,
    period_us: int,
    least_us: int,
    passes: int,
    asked: Numbers,
) -> Numbers:
    """Return what the copies serve and take when a trace comes several times.

    Args:
        times_us: When each request comes, from 0 [us].
        ids: Its object, from 0.
        sizes_bytes: Size of each object [bytes].
        copy_at: At which read from S3 an object is copied, from 1; 0 for never.
        drop_after_us: How long a copy waits for a read before it is dropped [us].
        period_us: How often the trace comes: once in this [us].
        least_us: How long a copy is billed at least [us].
        passes: How often the trace comes.
        asked: Whether each request asks for a copy at all: a row for the first pass, one for the others.

    Returns:
        A row per pass: reads from copies, copies made, bytes read from them, bytes copied, byte-microseconds held.
    """
    keys = len(sizes_bytes)
    is_held, reads = np.zeros(keys, np.bool_), np.zeros(keys, np.int64)
    read_us, copied_us = np.zeros(keys, np.int64), np.zeros(keys, np.int64)
    books = np.zeros((passes, 5), np.float64)  # sums stay below 2**53 but for the last, whose last digits do not matter
    for turn in range(passes):
        row, is_asked = books[turn], asked[min(turn, 1)]
        for i in range(len(ids)):
            if not is_asked[i]:
                continue
            key, at_us = ids[i], times_us[i] + turn * period_us
            size_bytes = sizes_bytes[key]
            if is_held[key]:
                idle_us = at_us - read_us[key]
                if idle_us <= drop_after_us[key]:
                    row[SERVED] += 1
                    row[SERVED_BYTES] += size_bytes
                    row[HELD_BYTE_US] += size_bytes * idle_us
                    read_us[key] = at_us
                    continue
                end_us = max(read_us[key] + drop_after_us[key], copied_us[key] + least_us)
                row[HELD_BYTE_US] += size_bytes * (end_us - read_us[key])
                is_held[key], reads[key] = False, 0
            reads[key] += 1
            if reads[key] == copy_at[key]:
                is_held[key], read_us[key], copied_us[key] = True, at_us, at_us
                row[COPIES] += 1
                row[COPIED_BYTES] += size_bytes
    row, end_us = books[passes - 1], passes * period_us
    for key in range(keys):  # still held when it is over
        if is_held[key]:
            until_us = max(min(end_us, read_us[key] + drop_after_us[key]), copied_us[key] + least_us)
            row[HELD_BYTE_US] += sizes_bytes[key] * (until_us - read_us[key])
    return books
