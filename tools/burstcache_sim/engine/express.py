"""Copies in S3 Express, compiled (`world.express` in words): what is left of a run's requests when memory has served.

Where a copy is read decides nothing about memory, so this pass comes after the run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from burstcache.core.express import LEAST_US, ExpressRule
from burstcache_sim.engine.books import FOREVER_US, Integers
from burstcache_sim.engine.compiled import compiled
from burstcache_sim.engine.shared_world import EXPRESS, S3
from burstcache_sim.world.result import ExpressUse

Keys = NDArray[np.int32]
Letters = NDArray[np.uint8]


class CopyTimes(NamedTuple):
    """A rule's answers per request: they follow from the object's size."""

    copy_at: Integers
    drop_after_us: Integers


def copy_times(rule: ExpressRule, sizes_bytes: Integers) -> CopyTimes:
    """Ask the rule once for each size."""
    sizes, places = np.unique(sizes_bytes, return_inverse=True)
    copy_at = np.array([rule.copy_at(size_bytes) for size_bytes in sizes.tolist()], np.int64)
    drop_after_us = np.array([rule.drop_after_us(size_bytes) for size_bytes in sizes.tolist()], np.int64)
    return CopyTimes(copy_at[places], drop_after_us[places])


def serve(
    tiers: Letters, t: Integers, key_ids: Keys, sizes_bytes: Integers, times: CopyTimes, keys: int, until_us: int | None
) -> ExpressUse:
    """Let copies serve what S3 would, and say so in the letters; return what that takes.

    Args:
        tiers: The letter of every request's tier; S3's are changed.
        t: All arrivals [us].
        key_ids: Their keys.
        sizes_bytes: Their objects' sizes.
        times: The rule, per request.
        keys: How many keys there are.
        until_us: The horizon.
    """
    horizon_us = FOREVER_US if until_us is None else until_us
    return ExpressUse(*_serve(tiers, t, key_ids, sizes_bytes, times, keys, horizon_us))


@compiled
def _serve(
    tiers: Letters, t: Integers, key_ids: Keys, sizes_bytes: Integers, times: CopyTimes, keys: int, horizon_us: int
) -> tuple[int, int, int, int, int]:
    held = np.full(keys, -1, np.int64)  # the request that made the key's copy; below 0: there is none
    read_us, reads = np.zeros(keys, np.int64), np.zeros(keys, np.int64)
    asks = copies = copied_bytes = read_bytes = byte_s = 0
    for i in range(len(t)):
        if tiers[i] != S3:
            continue
        at_us, key = t[i], key_ids[i]
        asks += 1
        made = held[key]
        if made >= 0:
            if at_us - read_us[key] <= times.drop_after_us[made]:
                tiers[i] = EXPRESS
                read_us[key] = at_us
                read_bytes += sizes_bytes[made]
                continue
            end_us = read_us[key] + times.drop_after_us[made]
            byte_s += sizes_bytes[made] * _billed_s(t[made], end_us)
            held[key], reads[key] = -1, 0
        reads[key] += 1
        if 0 < times.copy_at[i] <= reads[key]:
            held[key], read_us[key] = i, at_us
            copies += 1
            copied_bytes += sizes_bytes[i]
    for key in range(keys):
        made = held[key]
        if made >= 0:
            end_us = min(read_us[key] + times.drop_after_us[made], horizon_us)
            byte_s += sizes_bytes[made] * _billed_s(t[made], end_us)
    return asks, copies, copied_bytes, read_bytes, byte_s


@compiled
def _billed_s(copied_us: int, end_us: int) -> int:
    return (max(end_us - copied_us, LEAST_US) + 999_999) // 1_000_000
