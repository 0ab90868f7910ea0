"""S3 Express as a rung: when a copy of an object pays, and how long it is kept.

A reader decides by its own counts. Nothing else keeps books of copies, since that would cost more than most of them: S3
itself deletes a copy some days after it was put, by its size, and a reader that still uses it buys it again then.

Source:
    Ski rental between S3's price of a read and that of a copy. `docs/understand/decisions/reads.md`, "Copies in S3
    Express", has what else was tried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass
from math import ceil, log2
from typing import Generic, TypeVar

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices.sheet import BYTES_PER_GB, PriceSheet

Key = TypeVar("Key", bound=Hashable)

US_PER_DAY = 86_400 * US_PER_S
SAVED_SHARE = 0.8  # of S3's first byte: 5 of some 25 ms remain (`docs/use/advise.md`, "Latency")
LEAST_US = 3600 * US_PER_S  # what a copy is billed for at least
MOST_DAYS = 128

_KEEP_SHARE = 2 / 3  # of what a copy cost and saves, spent as rent while nobody reads it
_US_PER_H = 3600 * US_PER_S

# The balance of copies forgets all but about the newest thousand, and trusts the next ones for a hundred.
KEPT_SHARE = 0.999
CREDIT_COPIES = 100


@dataclass(frozen=True, slots=True)
class ExpressRule:
    """What copies cost and save, and what follows. All of it depends on the size; amounts in USD."""

    read_usd: float  # saved by a read of a copy in place of S3, without its bytes
    retrieval_usd_per_byte: float
    put_usd: float
    upload_usd_per_byte: float
    storage_usd_per_byte_us: float

    @property
    def most_bytes(self) -> int:
        """The largest object of which a copy may pay."""
        return int(self.read_usd / self.retrieval_usd_per_byte)

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

    def keep_days(self, size_bytes: int) -> int:
        """Return how long S3 keeps a copy of that size after it was put: a power of 2 from 1 to 128 [days]."""
        worth_usd = _KEEP_SHARE * (self.copy_usd(size_bytes) + max(self.saved_usd(size_bytes), 0.0))
        days = worth_usd / max(self.rent_usd_per_us(size_bytes) * US_PER_DAY, 1e-30)
        return 1 << min(max(round(log2(days)), 0), MOST_DAYS.bit_length() - 1)

    def largest_kept(self, days: int) -> int:
        """Return the largest size of which S3 keeps a copy for that number of days or more; -1: there is none."""
        return bisect_right(range(1 << 50), -days, key=lambda size_bytes: -self.keep_days(size_bytes)) - 1


def express_rule(prices: PriceSheet, *, hit_value_usd: float) -> ExpressRule:
    """Return the rule that follows from prices and from the worth of a saved wait of S3, >= 0 [USD].

    Raises:
        PriceMissingError: The sheet has no prices of S3 Express.
    """

    def usd(item: str) -> float:
        return float(prices.usd(item))

    return ExpressRule(
        read_usd=usd("s3-get") - usd("s3-express-get") + SAVED_SHARE * hit_value_usd,
        retrieval_usd_per_byte=usd("s3-express-retrieval") / BYTES_PER_GB,
        put_usd=usd("s3-express-put"),
        upload_usd_per_byte=usd("s3-express-upload") / BYTES_PER_GB,
        storage_usd_per_byte_us=usd("s3-express-storage") / BYTES_PER_GB / _US_PER_H,
    )


def expires_us(put_us: int, days: int) -> int:
    """Return when S3 deletes a copy: at the first midnight (UTC) after that number of days [us since 1970]."""
    return -(-(put_us + days * US_PER_DAY) // US_PER_DAY) * US_PER_DAY


@dataclass(slots=True)
class CopyBalance:
    """What copies have cost a reader lately, and what their reads have saved: the guard against keys that never return.

    An object counts from the read at which its price says that it is copied, whether or not it is, so the balance knows
    when copies pay again.
    """

    spent_usd: float = 0.0
    saved_usd: float = 0.0

    def spend(self, copy_usd: float) -> None:
        """Count an object that has reached its read."""
        self.spent_usd = self.spent_usd * KEPT_SHARE + copy_usd
        self.saved_usd *= KEPT_SHARE

    def save(self, saved_usd: float) -> None:
        """Count a later read of such an object."""
        self.saved_usd += saved_usd

    def is_overdrawn(self, copy_usd: float) -> bool:
        """Whether copies cost more than they save, so that an object has to show once more that it comes back."""
        return self.spent_usd > self.saved_usd + CREDIT_COPIES * copy_usd


class CopyCounts(Generic[Key]):
    """What one reader knows of its keys, and what it does about copies."""

    def __init__(self, rule: ExpressRule, reads: MutableMapping[Key, tuple[bool, int]]) -> None:
        """Know nothing yet.

        Args:
            rule: The prices' verdict.
            reads: Keeps, by key, whether it was last read from a copy, and how often since. What it forgets is counted
                from the start.
        """
        self.rule = rule
        self.balance = CopyBalance()
        self._reads = reads

    def read_s3(self, key: Key, size_bytes: int) -> bool:
        """Count a read that S3 served; return whether the object should be copied now.

        A copy that is gone is bought again at once if its reads had paid for it, else as the first time.
        """
        copy_at = self.rule.copy_at(size_bytes)
        if not copy_at:
            return False
        was_copy, count = self._reads.get(key, (False, 0))
        if was_copy:
            count = copy_at - 1 if count >= copy_at else 0
        count += 1
        self._reads[key] = (False, count)
        copy_usd = self.rule.copy_usd(size_bytes)
        if count == copy_at:
            self.balance.spend(copy_usd)
        elif count > copy_at:
            self.balance.save(self.rule.saved_usd(size_bytes))
        return count >= copy_at + self.balance.is_overdrawn(copy_usd)

    def read_copy(self, key: Key, size_bytes: int) -> None:
        """Count a read that a copy served."""
        was_copy, count = self._reads.get(key, (True, 0))
        self._reads[key] = (True, count + 1 if was_copy else 1)
        self.balance.save(self.rule.saved_usd(size_bytes))

    def note_put(self, key: Key) -> None:
        """Note that a copy has been put: its reads count from here."""
        self._reads[key] = (True, 0)
