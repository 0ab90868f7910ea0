"""S3 Express as a tier: when a copy of an object pays off, and how long S3 keeps the copy.

Each reader decides by its own read counts, since a shared registry of copies would cost more than most copies. S3
deletes a copy some days after its PUT, depending on its size. A reader that still needs the copy then makes a new one.

Source:
    Ski rental between paying S3 for each read and paying once for a copy. Alternatives that were tried are in
    `docs/understand/decisions/reads.md`, "Copies in S3 Express".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass
from math import ceil, log2
from typing import Generic, TypeVar

from burstcache.core.latency import FIRST_BYTE_MS
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices.sheet import BYTES_PER_GB, PriceSheet

Key = TypeVar("Key", bound=Hashable)

US_PER_DAY = 86_400 * US_PER_S
SAVED_SHARE = 1 - FIRST_BYTE_MS["express"] / FIRST_BYTE_MS["s3"]  # of a wait for S3
LEAST_US = 3600 * US_PER_S  # minimum billed time of a copy
MOST_DAYS = 128

_KEEP_SHARE = 2 / 3  # share of (a copy's price + one saving) that is spent on storage while nobody reads the copy
_US_PER_H = 3600 * US_PER_S

# The balance decays, so it covers about the last thousand copies. Its credit is the price of a hundred copies.
KEPT_SHARE = 0.999
CREDIT_COPIES = 100


@dataclass(frozen=True, slots=True)
class ExpressRule:
    """The rule for copying objects to S3 Express: cost and savings of a copy by size. Amounts in USD."""

    read_usd: float  # saving of a read from a copy instead of S3, excluding the price of retrieved bytes
    retrieval_usd_per_byte: float
    put_usd: float
    upload_usd_per_byte: float
    storage_usd_per_byte_us: float

    @property
    def most_bytes(self) -> int:
        """The size of the largest object whose copy may pay [bytes]."""
        return int(self.read_usd / self.retrieval_usd_per_byte)

    def saved_usd(self, size_bytes: int) -> float:
        """Return the saving of one read from a copy instead of S3, negative for a loss [USD]."""
        return self.read_usd - self.retrieval_usd_per_byte * size_bytes

    def rent_usd_per_us(self, size_bytes: int) -> float:
        """Return the price of storing a copy [USD/us]."""
        return self.storage_usd_per_byte_us * size_bytes

    def copy_usd(self, size_bytes: int) -> float:
        """Return the price of making a copy, including the minimum hour of storage [USD]."""
        return self.put_usd + self.upload_usd_per_byte * size_bytes + self.rent_usd_per_us(size_bytes) * LEAST_US

    def copy_at(self, size_bytes: int) -> int:
        """Return the count of reads from S3 at which the object is copied, or 0 if copies never pay off."""
        saved_usd = self.saved_usd(size_bytes)
        return ceil(self.copy_usd(size_bytes) / saved_usd) if saved_usd > 0 else 0

    def keep_days(self, size_bytes: int) -> int:
        """Return the lifetime of a copy of this size after its PUT, a power of 2 from 1 to 128 [days]."""
        worth_usd = _KEEP_SHARE * (self.copy_usd(size_bytes) + max(self.saved_usd(size_bytes), 0.0))
        days = worth_usd / max(self.rent_usd_per_us(size_bytes) * US_PER_DAY, 1e-30)
        return 1 << min(max(round(log2(days)), 0), MOST_DAYS.bit_length() - 1)

    def largest_kept(self, days: int) -> int:
        """Return the size of the largest copy that is kept for at least `days`, or -1 if there is none [bytes]."""
        return bisect_right(range(1 << 50), -days, key=lambda size_bytes: -self.keep_days(size_bytes)) - 1


def express_rule(prices: PriceSheet, *, hit_value_usd: float) -> ExpressRule:
    """Derive the rule from prices and from the value of a saved wait for S3, >= 0 [USD].

    Raises:
        PriceMissingError: The sheet has no prices for S3 Express.
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
    """Return the time at which S3 deletes a copy: the first midnight (UTC) after `days` have passed [us since 1970]."""
    return -(-(put_us + days * US_PER_DAY) // US_PER_DAY) * US_PER_DAY


@dataclass(slots=True)
class CopyBalance:
    """The recent cost and savings of a reader's copies. The balance limits losses on keys that are not read again.

    An object counts from its `copy_at`-th read, even if it is not copied. The balance therefore shows when copies start
    to pay off again.
    """

    spent_usd: float = 0.0
    saved_usd: float = 0.0

    def spend(self, copy_usd: float) -> None:
        """Count an object that has reached its `copy_at`-th read."""
        self.spent_usd = self.spent_usd * KEPT_SHARE + copy_usd
        self.saved_usd *= KEPT_SHARE

    def save(self, saved_usd: float) -> None:
        """Count a read of an object after its `copy_at`-th read."""
        self.saved_usd += saved_usd

    def is_overdrawn(self, copy_usd: float) -> bool:
        """Return whether recent copies cost more than savings plus credit. If so, objects are copied one read later."""
        return self.spent_usd > self.saved_usd + CREDIT_COPIES * copy_usd


class CopyCounts(Generic[Key]):
    """The read counts of one reader's keys, which decide when to copy an object."""

    def __init__(self, rule: ExpressRule, reads: MutableMapping[Key, tuple[bool, int]]) -> None:
        """Start without any counts.

        Args:
            rule: Costs and savings of copies.
            reads: Store of the counts. Maps a key to whether its last read was from a copy, and to the number of such
                reads. If the store evicts a key, the key's count restarts at 0.
        """
        self.rule = rule
        self.balance = CopyBalance()
        self._reads = reads

    def read_s3(self, key: Key, size_bytes: int) -> bool:
        """Count a read that S3 served, and return whether to copy the object now.

        An expired copy is replaced immediately if its reads had paid for the copy. Otherwise the count restarts at 0.
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
        """Count a read from a copy."""
        was_copy, count = self._reads.get(key, (True, 0))
        self._reads[key] = (True, count + 1 if was_copy else 1)
        self.balance.save(self.rule.saved_usd(size_bytes))

    def note_put(self, key: Key) -> None:
        """Start counting the reads of a new copy."""
        self._reads[key] = (True, 0)
