"""Latency classes: Burstcache against the rivals of each class, at each rival's own hit ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.choose.advise.configurations import Choice
from burstcache_sim.choose.advise.systems import LatencyClass, System, for_sale

# Slowest answer that counts as a hit in each class [ms]. Against S3 alone, every answer counts.
WITHIN_MS: dict[LatencyClass, float] = {"up to 2 ms": 2.0, "single-digit ms": 10.0, "S3": float("inf")}
AIM_TIMES, AIM_MORE_USD = 1.1, 0.5


@dataclass(frozen=True, slots=True)
class Against:
    """A rival and the cheapest Burstcache deployment, by bill plus the value of the hits that Burstcache lacks."""

    latency_class: LatencyClass
    rival: System
    ours: Choice
    ours_pct: float  # hits within the class's time limit
    lacking_usd: float  # value of the rival's additional hits [USD a month]

    @property
    def excess_usd(self) -> float:
        """Burstcache's cost above the target of 1.1 times the rival's cost plus half a dollar [USD]."""
        usd = self.ours.system.usd_per_month + self.lacking_usd
        return usd - AIM_TIMES * self.rival.usd_per_month - AIM_MORE_USD


def against_rivals(
    ours: Sequence[Choice], rivals: Sequence[System], clock: LatencyModel, *, usd_per_hit: float
) -> list[Against]:
    """Compare Burstcache with every rival on the Pareto front (bill, hits) of its class and freshness.

    Args:
        ours: All deployments of Burstcache.
        rivals: The competitors.
        clock: Latencies.
        usd_per_hit: Hit value [USD].
    """
    pairs = []
    for class_, within_ms in WITHIN_MS.items():
        for rival in _front([rival for rival in for_sale(rivals) if rival.latency_class == class_]):
            each = [_against(class_, rival, choice, _pct(choice, clock, within_ms), usd_per_hit) for choice in ours]
            pairs.append(min(each, key=lambda pair: pair.excess_usd))
    return pairs


def _against(class_: LatencyClass, rival: System, choice: Choice, pct: float, usd_per_hit: float) -> Against:
    requests = 100 * rival.gain.served / rival.in_memory_pct if rival.in_memory_pct else 0.0
    lacking = max(0.0, rival.in_memory_pct - pct) / 100 * requests
    return Against(class_, rival, choice, pct, usd_per_hit * lacking)


def _front(rivals: Sequence[System]) -> list[System]:
    """Return the Pareto front of rivals by bill, hits and staleness, cheapest first."""
    front: list[System] = []
    for rival in sorted(rivals, key=lambda system: (system.usd_per_month, -system.in_memory_pct)):
        as_fresh = [one for one in front if one.freshness != "unbounded" or rival.freshness == "unbounded"]
        if all(rival.in_memory_pct > one.in_memory_pct for one in as_fresh):
            front.append(rival)
    return front


def _pct(choice: Choice, clock: LatencyModel, within_ms: float) -> float:
    """Return the share of requests answered without S3 within a time limit [%]."""
    return 100 * clock.hits(choice.result, within_ms) / choice.result.n if choice.result.n else 0.0
