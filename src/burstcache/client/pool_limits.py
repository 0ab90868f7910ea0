"""Limits of reads through a stack's pool: the deadline of a slice, and the break-even interval between two reads."""

from __future__ import annotations

from burstcache.access import ExpressAccess
from burstcache.core.pool.admission import pays_within_s
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.slices import Redundancy
from burstcache.core.worth import sheet_of_region, wait_usd_from_text
from burstcache.logs import logger
from burstcache.settings.pool import PoolAccess

READ_LIMIT_S = 2.0  # per slice, including a cold start; S3 is faster for most slices


def pool_pays_within_s(access: PoolAccess, worth: ExpressAccess, redundancy: Redundancy) -> float:
    """Return the longest interval between two reads at which storing a slice in the pool pays [s].

    Log a warning if it never pays.

    Args:
        access: The pool's functions and their memory.
        worth: Value of a saved wait for S3, and the pricing region.
        redundancy: The erasure code of new slices.
    """
    sheet = sheet_of_region(worth.region)
    within_s = pays_within_s(
        member_price(sheet, access.memory_mb),
        redundancy,
        s3_get_usd=sheet.usd("s3-get"),
        hit_value_usd=wait_usd_from_text(worth.hit_value_usd_per_million),
    )
    if not within_s:
        logger().warning(
            "a slice from the pool costs more than the wait for S3 is worth, S3 serves",
            reason=f"HitValueUsdPerMillion is {worth.hit_value_usd_per_million}",
        )
    return within_s
