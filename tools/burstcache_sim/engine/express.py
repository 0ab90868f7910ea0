"""Compiled copies in S3 Express: `world.express` for the requests of a run that memory did not serve.

Copies do not affect the tiers in memory, so this pass comes after the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burstcache.core.express import CREDIT_COPIES, KEPT_SHARE, LEAST_US, US_PER_DAY
from burstcache_sim.engine.books import FOREVER_US, Integers
from burstcache_sim.engine.compiled import compiled
from burstcache_sim.engine.exact import LIMBS, add_product, sum_of
from burstcache_sim.engine.shared_world import EXPRESS, S3
from burstcache_sim.world.express import CopyRules
from burstcache_sim.world.result import ExpressUse

Keys = NDArray[np.int32]
Letters = NDArray[np.uint8]
_NONE, _GONE = -1, -2  # a key without a copy, and a key with an expired copy


def serve(
    tiers: Letters, t: Integers, key_ids: Keys, sizes_bytes: Integers, rules: CopyRules, keys: int, until_us: int | None
) -> ExpressUse:
    """Serve requests from copies instead of S3 where possible, update `tiers`, and return the use of S3 Express.

    Args:
        tiers: One tier letter per request.
        t: Arrival time of each request [us].
        key_ids: Key of each request.
        sizes_bytes: Object size of each request [bytes].
        rules: The rule's decision per request.
        keys: Number of keys.
        until_us: The horizon [us].
    """
    horizon_us = FOREVER_US if until_us is None else until_us
    sums = np.zeros((3, LIMBS), np.int64)
    asks, puts = _serve(tiers, t, key_ids, sizes_bytes, rules, keys, horizon_us, sums)
    put_bytes, read_bytes, byte_s = (sum_of(limbs) for limbs in sums)
    return ExpressUse(asks, puts, put_bytes, read_bytes, byte_s)


@compiled
def _serve(
    tiers: Letters, t: Integers, key_ids: Keys, sizes_bytes: Integers, rules: CopyRules, keys: int, horizon_us: int,
    sums: Integers,
) -> tuple[int, int]:  # fmt: skip
    """Return the number of requests that try a copy and the number of copies put, and update the sums of `serve`."""
    put_bytes, read_bytes, byte_s = sums[0], sums[1], sums[2]
    made = np.full(keys, _NONE, np.int64)  # the request that made the key's copy, which has the copy's size
    put_us, reads = np.zeros(keys, np.int64), np.zeros(keys, np.int64)
    spent_usd = balance_usd = 0.0
    asks = puts = 0
    for i in range(len(t)):
        if tiers[i] != S3:
            continue
        at_us, key = t[i], key_ids[i]
        asks += 1
        copy = made[key]
        if copy >= 0:
            end_us = _expires_us(put_us[key], rules.keep_days[copy])
            if at_us < end_us:
                tiers[i] = EXPRESS
                add_product(read_bytes, sizes_bytes[copy], 1)
                reads[key] += 1
                balance_usd += rules.saved_usd[copy]
                continue
            add_product(byte_s, sizes_bytes[copy], _billed_s(put_us[key], end_us))
            made[key] = _GONE
        copy_at = rules.copy_at[i]
        if not copy_at:
            continue
        if made[key] == _GONE:
            made[key], reads[key] = _NONE, copy_at - 1 if reads[key] >= copy_at else 0
        reads[key] += 1
        if reads[key] == copy_at:
            spent_usd = spent_usd * KEPT_SHARE + rules.copy_usd[i]
            balance_usd *= KEPT_SHARE
        elif reads[key] > copy_at:
            balance_usd += rules.saved_usd[i]
        is_overdrawn = spent_usd > balance_usd + CREDIT_COPIES * rules.copy_usd[i]
        if reads[key] >= copy_at + is_overdrawn:
            made[key], put_us[key], reads[key] = i, at_us, 0
            puts += 1
            add_product(put_bytes, sizes_bytes[i], 1)
    for key in range(keys):
        if made[key] >= 0:
            end_us = min(_expires_us(put_us[key], rules.keep_days[made[key]]), horizon_us)
            add_product(byte_s, sizes_bytes[made[key]], _billed_s(put_us[key], end_us))
    return asks, puts


@compiled
def _expires_us(put_us: int, days: int) -> int:
    return -(-(put_us + days * US_PER_DAY) // US_PER_DAY) * US_PER_DAY


@compiled
def _billed_s(put_us: int, end_us: int) -> int:
    return (max(end_us - put_us, LEAST_US) + 999_999) // 1_000_000
