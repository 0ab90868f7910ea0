"""Search objectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from burstcache_sim.choose.tune.front import Tried

NEARLY = 0.01  # a candidate this close to the best counts as equal, because a log's days differ by more


class Objective(Protocol):
    """A search objective. Lower ranks are better. A rank's first number is above 0 if the objective is missed."""

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return a candidate's distance from the objective, then its quality."""

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Return whether a candidate is within 1 % of the best candidate, which meets the objective."""


@dataclass(frozen=True, slots=True)
class CheapestAt:
    """The lowest bill at a minimum hit ratio."""

    in_memory_pct: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return the missing hit ratio, then the bill."""
        return max(0.0, self.in_memory_pct - tried.in_memory_pct), tried.usd_per_month, -tried.in_memory_pct

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Return whether the hit ratio is reached at nearly the lowest bill."""
        is_reached = tried.in_memory_pct >= self.in_memory_pct
        return is_reached and tried.usd_per_month <= best.usd_per_month * (1 + NEARLY)


@dataclass(frozen=True, slots=True)
class MostHitsFor:
    """The highest hit ratio within a maximum bill."""

    usd_per_month: float

    def rank(self, tried: Tried) -> tuple[float, ...]:
        """Return the excess over the maximum bill, then the negated hit ratio."""
        return max(0.0, tried.usd_per_month - self.usd_per_month), -tried.in_memory_pct, tried.usd_per_month

    def is_as_good(self, tried: Tried, best: Tried) -> bool:
        """Return whether the bill is within its limit and the hit ratio is nearly the highest."""
        is_kept = tried.usd_per_month <= self.usd_per_month
        return is_kept and tried.in_memory_pct >= best.in_memory_pct * (1 - NEARLY)
