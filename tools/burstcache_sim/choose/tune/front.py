"""Candidates that were tried, and their Pareto front in cost and hits."""

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
    """One candidate. `text` is how a person writes it: `PolicyOverrides`, or what a hit is worth."""

    point: Point
    policy: Policy
    text: str
    result: RunResult
    usd_per_month: float
    repeats_per_month: float  # how often the log comes

    @property
    def in_memory_pct(self) -> float:
        """Share of requests served from memory [%]."""
        return self.result.in_memory_pct


def pareto_front(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Return the candidates that no other beats in both cost and hits, cheapest first."""
    front: list[Tried] = []
    for one in sorted(tried, key=lambda t: (t.usd_per_month, -t.in_memory_pct)):
        if not front or one.in_memory_pct > front[-1].in_memory_pct:
            front.append(one)
    return tuple(front)


def spread(front: Sequence[Tried], count: int) -> list[Tried]:
    """Return at most `count` candidates of a front, evenly spread, the first and the last among them."""
    if len(front) <= count:
        return list(front)
    return [front[round(i * (len(front) - 1) / max(count - 1, 1))] for i in range(count)]
