"""What a search looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from burstcache_sim.choose.tune.front import Tried

NEARLY = 0.01  # so much worse than the best is as good: a log's next day differs by more


class Objective(Protocol):
    """What is looked for. A smaller rank is better; its first place is above 0 where the objective is missed."""

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return how far from the objective a candidate is, then how good."""

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Tell whether a candidate is within one per cent of the best, which meets the objective."""


@dataclass(frozen=True, slots=True)
class CheapestAt:
    """The lowest bill with at least this share of hits."""

    in_memory_pct: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return what is missing to the share, and the bill."""
        return max(0.0, self.in_memory_pct - tried.in_memory_pct), tried.usd_per_month, -tried.in_memory_pct

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Tell whether the share is reached for nearly the lowest bill."""
        is_reached = tried.in_memory_pct >= self.in_memory_pct
        return is_reached and tried.usd_per_month <= best.usd_per_month * (1 + NEARLY)


@dataclass(frozen=True, slots=True)
class MostHitsFor:
    """The highest share of hits for at most this bill."""

    usd_per_month: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return what the bill exceeds, and the share."""
        return max(0.0, tried.usd_per_month - self.usd_per_month), -tried.in_memory_pct, tried.usd_per_month

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Tell whether the bill is kept with nearly the highest share."""
        is_kept = tried.usd_per_month <= self.usd_per_month
        return is_kept and tried.in_memory_pct >= best.in_memory_pct * (1 - NEARLY)
