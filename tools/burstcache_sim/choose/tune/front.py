"""The Pareto front of tried candidates, by cost and hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache_sim.choose.tune.candidates import Point
from burstcache_sim.policies.policy import Policy

if TYPE_CHECKING:
    from burstcache_sim.world.result import RunResult


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate with its results."""

    point: Point
    policy: Policy
    text: str  # `PolicyOverrides`, or the hit value
    result: RunResult
    usd_per_month: float
    repeats_per_month: float  # repetitions of the log

    @property
    def in_memory_pct(self) -> float:
        """Share of requests served from memory [%]."""
        return self.result.in_memory_pct


def pareto_front(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Return the candidates that no other candidate beats in both cost and hits, cheapest first."""
    front: list[Tried] = []
    for one in sorted(tried, key=lambda t: (t.usd_per_month, -t.in_memory_pct)):
        if not front or one.in_memory_pct > front[-1].in_memory_pct:
            front.append(one)
    return tuple(front)


def spread(front: Sequence[Tried], count: int) -> list[Tried]:
    """Return at most `count` candidates of a front, evenly spread, including the first and the last."""
    if len(front) <= count:
        return list(front)
    return [front[round(i * (len(front) - 1) / max(count - 1, 1))] for i in range(count)]
