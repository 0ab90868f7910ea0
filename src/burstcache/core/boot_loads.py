"""Selection of boot loads: keys read within the last day, if another read is likely enough to justify a GET from S3.

Loading a key that nobody reads costs a GET. Skipping a key makes its first request wait for S3. The probability of that
request is estimated from the time since the key was last seen and from the node's minimum run.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from burstcache.core.parameters import US_PER_S
from burstcache.core.recency import SEEN_WITHIN_US
from burstcache.core.worth import MICRO, Worth

# Most keys are never read again, and a longer idle time makes another read less likely. The probability of a read is
# this factor times run / (run + settling + idle time). Measured on logs: `docs/evidence/measurements/policies.md`.
_RETURNING = Fraction(1, 10)
SETTLING_US = 60 * US_PER_S
# Daily jobs read a key at the same time of day, within minutes.
_DAILY_CHANCE = Fraction(2, 25)
DAILY_WITHIN_US = 180 * US_PER_S

PER_MILLE = 1_000
_MAX_RATIO = 10_000 * PER_MILLE  # even a run of one minute then loads all keys of a day; products fit in 64 bits


@dataclass(frozen=True, slots=True)
class LoadRule:
    """The rule that decides which keys a boot loads. It uses integers, like the compiled simulator."""

    ratio: int  # loads that one hit pays for, times the share of keys that are read again [thousandths]
    daily_weight: int  # minimum weight of keys that are loaded because of daily reads [millionths]

    def oldest_us(self, *, run_us: int, weight: int) -> int:
        """Return the maximum idle time of a key that a boot loads, or a negative time if it never loads the key [us].

        Args:
            run_us: Minimum run of the node [us].
            weight: Weight of a hit on this key, as computed by `Worth.weight` [millionths].
        """
        run_us = min(run_us, SEEN_WITHIN_US)
        paid_us = min(run_us * self.ratio // PER_MILLE, 2 * SEEN_WITHIN_US + SETTLING_US)
        return paid_us * weight // MICRO - run_us - SETTLING_US

    def daily_us(self, *, run_us: int, weight: int) -> int:
        """Return the idle time after which a key is loaded because a daily read may be due [us]."""
        return SEEN_WITHIN_US - run_us - DAILY_WITHIN_US if weight >= self.daily_weight else SEEN_WITHIN_US

    def loads(self, *, age_us: int, run_us: int, weight: int) -> bool:
        """Return whether a boot loads a key that was last recorded `age_us` ago (less than a day)."""
        oldest_us, daily_us = (limit(run_us=run_us, weight=weight) for limit in (self.oldest_us, self.daily_us))
        return age_us <= oldest_us or age_us >= daily_us


def load_rule(worth: Worth) -> LoadRule:
    """Derive the rule from a hit's saving and a load's price. If loads are free, the rule selects all keys."""
    get_usd, hit_usd = worth.prices.s3_get_usd, worth.hit_usd
    ratio = int(_RETURNING * hit_usd / get_usd * PER_MILLE) if get_usd else _MAX_RATIO
    return LoadRule(min(ratio, _MAX_RATIO), ceil(MICRO * get_usd / (_DAILY_CHANCE * hit_usd)))
