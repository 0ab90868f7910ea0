"""Copies in a faster bucket over passes of a trace, made at an object's k-th read from S3 and deleted days later.

This is the compiled counterpart of `core.express.CopyCounts`, for all keys together. A test compares the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from burstcache.core.express import CREDIT_COPIES, KEPT_SHARE, US_PER_DAY
from burstcache_sim.engine.compiled import compiled
from burstcache_sim.world.express import CopyRules

# Columns of the books, with one row per pass. LEFT is the storage of renewed objects' copies after their pass, when
# the copies are no longer read.
SERVED, COPIES, SERVED_BYTES, COPIED_BYTES, HELD_BYTE_US, LEFT_BYTE_US = range(6)

Numbers = NDArray[Any]


@compiled
def _later_us(kept_us: int, rest_us: int, period_us: int) -> float:
    """Sum the time for which copies outlive their repetition, over the repetitions in the rest of a month.

    Each repetition leaves one copy. All copies are kept equally long, except that the end of the month truncates later
    copies.
    """
    if rest_us <= 0:
        return 0.0
    times, longest_us = float(rest_us) / period_us, float(max(0, rest_us - period_us))
    if kept_us >= longest_us:
        return times * longest_us / 2
    return times * (kept_us - float(kept_us) * kept_us / (2 * longest_us))


@compiled
def keep_copies(
    times_us: Numbers,
    ids: Numbers,
    sizes_bytes: Numbers,
    rules: CopyRules,
    period_us: int,
    least_us: int,
    passes: int,
    asked: Numbers,
    is_renewed: Numbers,
    month_us: int,
) -> Numbers:
    """Replay copies over several passes of a trace.

    Args:
        times_us: Time of each request since the trace's start, which counts as midnight [us].
        ids: Object of each request, from 0.
        sizes_bytes: Size of each object [bytes].
        rules: The rule's decision for each object. If `copy_usd` is 0, copies need not pay for themselves.
        period_us: Time from one pass to the next [us].
        least_us: Minimum bill of a copy [us].
        passes: Number of passes.
        asked: Whether each request reaches the copies: one row for the first pass, one row for all others.
        is_renewed: Whether each object gets a new name in each pass.
        month_us: End of the last repetition [us]. The passes are the first repetitions.

    Returns:
        One row per pass: reads from copies, copies put, bytes read from copies, bytes put, storage during the pass,
        and storage of renewed objects' copies from the pass to the month's end (both in byte-microseconds). The last
        row has only the last column, for all repetitions after the passes. Each of these repetitions is assumed to put
        as much as the last pass.
    """
    keys = len(sizes_bytes)
    is_held, reads = np.zeros(keys, np.bool_), np.zeros(keys, np.int64)
    put_us, end_us, billed_us = np.zeros(keys, np.int64), np.zeros(keys, np.int64), np.zeros(keys, np.int64)
    # Products are floats as well, because 1 GiB stored for 2.4 hours would overflow an integer.
    books = np.zeros((passes + 1, 6), np.float64)
    spent_usd = balance_usd = 0.0
    for turn in range(passes):
        row, is_asked = books[turn], asked[min(turn, 1)]
        for key in range(keys):
            if turn > 0 and is_renewed[key]:
                if is_held[key]:
                    ends_us = max(end_us[key], put_us[key] + least_us)
                    until_us = min(turn * period_us, ends_us)
                    size_bytes = float(sizes_bytes[key])
                    books[turn - 1, HELD_BYTE_US] += size_bytes * (until_us - billed_us[key])
                    books[turn - 1, LEFT_BYTE_US] += size_bytes * max(0, min(ends_us, month_us) - until_us)
                is_held[key], reads[key] = False, 0
        for i in range(len(ids)):
            if not is_asked[i]:
                continue
            key, at_us = ids[i], times_us[i] + turn * period_us
            size_bytes = sizes_bytes[key]
            if is_held[key]:
                until_us = min(at_us, end_us[key])
                row[HELD_BYTE_US] += float(size_bytes) * (until_us - billed_us[key])
                billed_us[key] = until_us
                if at_us >= end_us[key]:
                    is_held[key], is_paid = False, reads[key] >= rules.copy_at[key]
                    reads[key] = rules.copy_at[key] - 1 if is_paid else 0
            reads[key] += 1
            if is_held[key]:
                row[SERVED] += 1
                row[SERVED_BYTES] += size_bytes
                balance_usd += rules.saved_usd[key]
            elif rules.copy_at[key]:
                if reads[key] == rules.copy_at[key]:
                    spent_usd = spent_usd * KEPT_SHARE + rules.copy_usd[key]
                    balance_usd *= KEPT_SHARE
                elif reads[key] > rules.copy_at[key]:
                    balance_usd += rules.saved_usd[key]
                is_overdrawn = spent_usd > balance_usd + CREDIT_COPIES * rules.copy_usd[key]
                if reads[key] >= rules.copy_at[key] + is_overdrawn:
                    is_held[key], reads[key], put_us[key], billed_us[key] = True, 0, at_us, at_us
                    end_us[key] = -(-(at_us + rules.keep_days[key] * US_PER_DAY) // US_PER_DAY) * US_PER_DAY
                    row[COPIES] += 1
                    row[COPIED_BYTES] += size_bytes
    row, over_us = books[passes - 1], passes * period_us
    for key in range(keys):  # copies that outlive the last pass
        if is_held[key]:
            until_us = max(min(over_us, end_us[key]), put_us[key] + least_us)
            size_bytes = float(sizes_bytes[key])
            row[HELD_BYTE_US] += size_bytes * (until_us - billed_us[key])
            if is_renewed[key]:
                row[LEFT_BYTE_US] += size_bytes * max(0, min(end_us[key], month_us) - until_us)
                later_us = max(0, end_us[key] - until_us)
                books[passes, LEFT_BYTE_US] += size_bytes * _later_us(later_us, month_us - over_us, period_us)
    return books
