"""S3 Express as a rung: when a copy of an object pays, and how long it is kept without a read.

Every number follows from prices and from what a saved wait of S3 is worth; nothing is fitted but the share of the rent
that a copy may cost while nobody reads it.

Source:
    Ski rental between S3's price of a read and that of a copy; half of the rental, which does better on real logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices.sheet import PriceSheet

SAVED_SHARE = 0.9  # of S3's wait: 5 of some 50 ms remain
_US_PER_H = 3600 * US_PER_S
LEAST_US = _US_PER_H  # what a copy is billed for at least
LONGEST_US = 10**15  # thirty years: never
_DROP_SHARE = 0.5
_BYTES_PER_GB = 1024**3


@dataclass(frozen=True, slots=True)
class ExpressRule:
    """What copies cost and save. All of it grows with the size; amounts in USD."""

    read_usd: float  # saved by a read of a copy in place of S3, without its bytes
    retrieval_usd_per_byte: float
    put_usd: float
    upload_usd_per_byte: float
    storage_usd_per_byte_us: float

    def saved_usd(self, size_bytes: int) -> float:
        """Return what one read of a copy saves, against S3; below 0: it costs more than it is worth."""
        return self.read_usd - self.retrieval_usd_per_byte * size_bytes

    def rent_usd_per_us(self, size_bytes: int) -> float:
        """Return what a copy costs while it is there."""
        return self.storage_usd_per_byte_us * size_bytes

    def copy_usd(self, size_bytes: int) -> float:
        """Return what making a copy costs, with the hour that it is billed at least."""
        return self.put_usd + self.upload_usd_per_byte * size_bytes + self.rent_usd_per_us(size_bytes) * LEAST_US

    def copy_at(self, size_bytes: int) -> int:
        """Return at which read from S3 an object is copied, from 1; 0: never."""
        saved_usd = self.saved_usd(size_bytes)
        return ceil(self.copy_usd(size_bytes) / saved_usd) if saved_usd > 0 else 0

    def drop_after_us(self, size_bytes: int) -> int:
        """Return how long a copy is kept after its last read [us]."""
        worth_usd = _DROP_SHARE * (self.copy_usd(size_bytes) + max(self.saved_usd(size_bytes), 0.0))
        return int(min(worth_usd / max(self.rent_usd_per_us(size_bytes), 1e-30), LONGEST_US))


def express_rule(prices: PriceSheet, *, hit_value_usd: float) -> ExpressRule:
    """Return the rule that follows from prices and from the worth of a saved wait of S3, >= 0 [USD].

    Raises:
        PriceMissingError: The sheet has no prices of S3 Express.
    """

    def usd(item: str) -> float:
        return float(prices.usd(item))

    return ExpressRule(
        read_usd=usd("s3-get") - usd("s3-express-get") + SAVED_SHARE * hit_value_usd,
        retrieval_usd_per_byte=usd("s3-express-retrieval") / _BYTES_PER_GB,
        put_usd=usd("s3-express-put"),
        upload_usd_per_byte=usd("s3-express-upload") / _BYTES_PER_GB,
        storage_usd_per_byte_us=usd("s3-express-storage") / _BYTES_PER_GB / _US_PER_H,
    )
