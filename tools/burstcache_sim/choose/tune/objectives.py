"""What a search looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from burstcache_sim.choose.tune.front import Tried

NEARLY = 0.01  # this much worse than the best is as good: a log's next day differs by more


class Objective(Protocol):
    """The aim of a search. A smaller rank is better; its first number is above 0 if the objective is missed."""

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return how far a candidate is from the objective, then how good it is."""

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """True if a candidate is within one per cent of the best, which meets the objective."""


@dataclass(frozen=True, slots=True)
class CheapestAt:
    """The lowest bill with at least this share of hits."""

    in_memory_pct: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return what the share lacks, and the bill."""
        return max(0.0, self.in_memory_pct - tried.in_memory_pct), tried.usd_per_month, -tried.in_memory_pct

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """True if the share is reached for nearly the lowest bill."""
        is_reached = tried.in_memory_pct >= self.in_memory_pct
        return is_reached and tried.usd_per_month <= best.usd_per_month * (1 + NEARLY)


@dataclass(frozen=True, slots=True)
class MostHitsFor:
    """The highest share of hits for at most this bill."""

    usd_per_month: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return the excess of the bill, and the share."""
        return max(0.0, tried.usd_per_month - self.usd_per_month), -tried.in_memory_pct, tried.usd_per_month

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """True if the bill is kept with nearly the highest share."""
        is_kept = tried.usd_per_month <= self.usd_per_month
        return is_kept and tried.in_memory_pct >= best.in_memory_pct * (1 - NEARLY)
