"""Burstcache against the rivals of each class of latency, each at its own share of hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache_sim.bill.clock import Clock
from burstcache_sim.choose.advise.configurations import Choice
from burstcache_sim.choose.advise.systems import LatencyClass, System, choices

# A class by the slowest answer that is a hit in it [ms]. S3 alone answers everything: all may stand against it.
WITHIN_MS: dict[LatencyClass, float] = {"up to 2 ms": 2.0, "single-digit ms": 10.0, "S3": float("inf")}
AIM_TIMES, AIM_MORE_USD = 1.1, 0.5


@dataclass(frozen=True, slots=True)
class Against:
    """A rival, and the Burstcache that costs least next to it: bill, and the worth of the hits that it has fewer of."""

    latency_class: LatencyClass
    rival: System
    ours: Choice
    ours_pct: float  # hits within the class's time
    lacking_usd: float  # what the hits are worth in which the rival is ahead [USD a month]

    @property
    def excess_usd(self) -> float:
        """What Burstcache costs more than 1.1 times the rival and half a dollar; below 0 if the aim is met [USD]."""
        usd = self.ours.system.usd_per_month + self.lacking_usd
        return usd - AIM_TIMES * self.rival.usd_per_month - AIM_MORE_USD


def against_rivals(
    ours: Sequence[Choice], rivals: Sequence[System], clock: Clock, *, usd_per_hit: float
) -> list[Against]:
    """Return Burstcache against every rival that no other of its class and freshness beats in both bill and hits.

    Args:
        ours: All ways to deploy it.
        rivals: What else one could buy.
        clock: How long answers take.
        usd_per_hit: What the hits are worth that Burstcache lacks [USD].
    """
    found = []
    for class_, within_ms in WITHIN_MS.items():
        for rival in _front([rival for rival in choices(rivals) if rival.latency_class == class_]):
            each = [_against(class_, rival, choice, _pct(choice, clock, within_ms), usd_per_hit) for choice in ours]
            found.append(min(each, key=lambda one: one.excess_usd))
    return found


def _against(class_: LatencyClass, rival: System, choice: Choice, pct: float, usd_per_hit: float) -> Against:
    requests = 100 * rival.gain.served / rival.in_memory_pct if rival.in_memory_pct else 0.0
    lacking = max(0.0, rival.in_memory_pct - pct) / 100 * requests
    return Against(class_, rival, choice, pct, usd_per_hit * lacking)


def _front(rivals: Sequence[System]) -> list[System]:
    """Return the rivals that no other one of at most their age beats in both bill and hits, the cheapest first."""
    found: list[System] = []
    for rival in sorted(rivals, key=lambda one: (one.usd_per_month, -one.in_memory_pct)):
        as_fresh = [one for one in found if one.freshness != "any age" or rival.freshness == "any age"]
        if all(rival.in_memory_pct > one.in_memory_pct for one in as_fresh):
            found.append(rival)
    return found


def _pct(choice: Choice, clock: Clock, within_ms: float) -> float:
    """Return the share of requests that a choice answers without S3 within a time [%]."""
    return 100 * clock.hits(choice.result, within_ms) / choice.result.n if choice.result.n else 0.0
