"""What a boot loads: of the keys seen within a day those whose chance to be asked for pays for reading them from S3.

A key that is loaded in vain has cost a GET; one that is left out costs its first request's wait. How likely that
request comes follows from when the key was last noted as seen and from how long the node runs at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from burstcache.core.parameters import US_PER_S
from burstcache.core.seen import SEEN_WITHIN_US
from burstcache.core.worth import MICRO, Worth

# Most keys never come back, and the longer one has been silent the less likely it comes within some time: the chance
# is this share of run / (run + settling + silence). `docs/evidence/measurements/policies.md` has what logs say.
_RETURNING = Fraction(1, 10)
SETTLING_US = 60 * US_PER_S
# What is asked for once a day comes within minutes of the day before: job after job of some machine.
_DAILY_CHANCE = Fraction(2, 25)
DAILY_WITHIN_US = 180 * US_PER_S

PER_MILLE = 1_000
_MOST_RATIO = 10_000 * PER_MILLE  # with which a minute's run loads all keys of a day; products fit 64 bits


@dataclass(frozen=True, slots=True)
class LoadRule:
    """When a key is loaded; in integers, as the compiled simulator has it."""

    ratio: int  # how many loads a saved hit pays for, times the share of keys that come back [thousandths]
    daily_weight: int  # from which weight on what comes daily is loaded [millionths]

    def oldest_us(self, *, run_us: int, weight: int) -> int:
        """Return how long ago a key may have been seen to be loaded for its silence; below 0: never [us].

        Args:
            run_us: How long the node runs at least [us].
            weight: What a hit of the key saves, as a share of what one saves above S3 (`Worth.weight`) [millionths].
        """
        run_us = min(run_us, SEEN_WITHIN_US)
        paid_us = min(run_us * self.ratio // PER_MILLE, 2 * SEEN_WITHIN_US + SETTLING_US)
        return paid_us * weight // MICRO - run_us - SETTLING_US

    def daily_us(self, *, run_us: int, weight: int) -> int:
        """Return how long ago a key must have been seen at least to be loaded as one that comes daily [us]."""
        return SEEN_WITHIN_US - run_us - DAILY_WITHIN_US if weight >= self.daily_weight else SEEN_WITHIN_US

    def loads(self, *, age_us: int, run_us: int, weight: int) -> bool:
        """Whether a key that was noted as seen `age_us` ago, less than a day, is loaded."""
        oldest_us, daily_us = (limit(run_us=run_us, weight=weight) for limit in (self.oldest_us, self.daily_us))
        return age_us <= oldest_us or age_us >= daily_us


def load_rule(worth: Worth) -> LoadRule:
    """Return the rule that follows from what a hit saves and what a load costs; without a price all are loaded."""
    get_usd, hit_usd = worth.prices.s3_get_usd, worth.hit_usd
    ratio = int(_RETURNING * hit_usd / get_usd * PER_MILLE) if get_usd else _MOST_RATIO
    return LoadRule(min(ratio, _MOST_RATIO), ceil(MICRO * get_usd / (_DAILY_CHANCE * hit_usd)))
