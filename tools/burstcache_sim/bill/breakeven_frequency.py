"""Break-even frequency of bursts between two systems: table 5.2 of the thesis for any trace and competitor.

Source:
    Thesis, section 5.5 "Burst Frequency": bursts repeat without overlapping, at unknown times.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.cost import Bill


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """A system's fixed cost per hour and its cost per burst [USD]."""

    per_hour_usd: Fraction
    per_burst_usd: Fraction


@dataclass(frozen=True, slots=True)
class BurstFrequency:
    """Burst counts at which a system is cheaper: `least` to `most` (None: unlimited) per `window_h` hours."""

    most: int | None
    burst_us: int
    least: int = 1
    window_h: int = 1

    @property
    def coverage_pct(self) -> float | None:
        """Share of the window that `most` bursts cover, above 100 if the bursts would overlap [%]."""
        return None if self.most is None else self.most * self.burst_us / (self.window_h * 36 * US_PER_S)

    def __str__(self) -> str:
        if self.most is None:
            return "any number" if self.least <= 1 else f"from {self.least}"
        if self.most == 0:
            return "never"
        covered = int(self.coverage_pct or 0)  # the thesis truncates decimals
        return f"up to {self.most} ({covered} %)" if covered <= 100 else f"up to {self.most} (> 100 %)"


def burst_frequency(ours: HourlyCost, theirs: HourlyCost, *, burst_us: int, window_h: int = 1) -> BurstFrequency:
    """Return the burst counts per window at which `ours` costs strictly less than `theirs`.

    Args:
        ours: The system that pays for bursts.
        theirs: The competitor. An always-on node has no cost per burst.
        burst_us: Duration of a burst [us].
        window_h: Length of the window: an hour as in the thesis, or a month for bursts longer than an hour [h].
    """
    head_start_usd = (theirs.per_hour_usd - ours.per_hour_usd) * window_h
    dearer_usd = ours.per_burst_usd - theirs.per_burst_usd
    if dearer_usd > 0:
        return BurstFrequency(max(0, ceil(head_start_usd / dearer_usd) - 1), burst_us, window_h=window_h)
    if dearer_usd < 0:
        least = max(1, floor(head_start_usd / dearer_usd) + 1)
        return BurstFrequency(None, burst_us, least, window_h)
    return BurstFrequency(None if head_start_usd > 0 else 0, burst_us, window_h=window_h)


def hourly_cost(bill: Bill, *, hours: int, bursts: int = 1) -> HourlyCost:
    """Split the bill of full hours into a cost per hour and a cost per burst.

    Args:
        bill: A bill for full hours, because some items are billed per full hour.
        hours: Number of hours, > 0.
        bursts: Number of bursts in these hours.
    """
    return HourlyCost(bill.fixed_usd_exact / hours, bill.variable_usd_exact / bursts)
