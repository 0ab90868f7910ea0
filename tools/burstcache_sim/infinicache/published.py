"""Values published in InfiniCache's paper.

Source:
    Wang 2020, sections 4.3 and 5.2, table 1, figures 13, 14 and 17.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache_sim.bill.infinicache import InfiniCache

HOURS = 50
PAPER = InfiniCache(billed_in_ms=100)
REQUEST_USD, GB_S_USD = Fraction(2, 10**7), Fraction(166667, 10**10)
ELASTICACHE_USD_PER_H = Fraction(10_368, 1_000)  # one cache.r5.24xlarge
ELASTICACHE_BYTES = 635_610_000_000
OVERTAKES_GETS_PER_H = 312_000
WARM_UP_USD_PER_H = 0.0648  # C_w
LARGE_GETS_PER_H = 750

# Reclaims per minute among 400 members, at the low and the high end of the printed losses (figure 9).
LOW, HIGH = ("poisson:2.28", "zipf:3.23"), ("poisson:7.21", "zipf:2.27")


@dataclass(frozen=True, slots=True)
class Setting:
    """One of the paper's three settings, with the published results."""

    name: str
    is_large_only: bool
    backup_s: int
    usd: float
    hit_pct: float  # table 1
    elasticache_hit_pct: float
    resets: int  # lost objects that were fetched again
    availability_pct: float | None = None


SETTINGS = (
    Setting("all objects", False, 300, 20.52, 64.7, 67.9, 5_720),
    Setting("large objects", True, 300, 16.51, 63.6, 65.9, 1_085, 95.4),
    Setting("large objects, no backup", True, 0, 5.41, 56.1, 65.9, 3_912, 81.4),
)
ELASTICACHE_USD = 518.4
