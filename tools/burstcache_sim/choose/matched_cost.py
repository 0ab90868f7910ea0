"""Matched cost: a comparison of two policies at equal in-memory shares, by varying one policy's knob."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from burstcache.core.parameters import US_PER_S
from burstcache_sim.optimum.exact import Variant, least_cost
from burstcache_sim.policies.policy import Policy, WorthPolicy
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import Trace
from burstcache_sim.traces.workloads import SyntheticWorkload
from burstcache_sim.units import REDIS_UNITS_PER_US, UNITS_PER_USD, run_cost_units
from burstcache_sim.world.scenario import Scenario

Arrivals = NDArray[np.int64]

STEPS_PER_DECADE = 40
KNOBS_USD = tuple(round(10 ** (-7 + step / STEPS_PER_DECADE), 12) for step in range(7 * STEPS_PER_DECADE + 1))
PENALTIES_USD = tuple(10 ** (-6.5 + step / 3) for step in range(12))


@dataclass(frozen=True, slots=True)
class Point:
    """A policy's share and cost over all traces of a workload."""

    share_pct: float  # share of requests served from memory
    usd: float  # mean per trace


@dataclass(frozen=True, slots=True)
class Match:
    """The cost of a policy at a given share [USD]."""

    usd: float
    knob_usd: float  # the smaller of the two adjacent knob values that enclose the share


def traces(workload: SyntheticWorkload, seeds: Sequence[int]) -> list[Arrivals]:
    """Return a workload's traces [us]."""
    return [np.array(workload.arrivals_us(seed), np.int64) for seed in seeds]


def mean_rate(workload: SyntheticWorkload, arrivals_us: Sequence[Arrivals]) -> Fraction:
    """Return these traces' mean rate, rounded to a hundredth [1/min]."""
    if workload.duration_s is None:
        gaps, time_us = sum(len(t) - 1 for t in arrivals_us), sum(int(t[-1] - t[0]) for t in arrivals_us)
    else:
        gaps, time_us = sum(len(t) for t in arrivals_us), len(arrivals_us) * workload.duration_s * US_PER_S
    return Fraction(round(6_000_000_000 * gaps / time_us), 100)


def points(arrivals_us: Sequence[Arrivals], policies: Sequence[Policy], until_us: int | None) -> list[Point]:
    """Return each policy's share and cost."""
    sums = np.zeros((len(policies), 2))
    for t in arrivals_us:
        results = replay_each(policies, Scenario(Trace(t), until_us=until_us))
        sums += [(r.n_lambda + r.n_redis, run_cost_units(r) / UNITS_PER_USD) for r in results]
    requests = sum(len(t) for t in arrivals_us)
    return [Point(100 * hits / requests, usd / len(arrivals_us)) for hits, usd in sums.tolist()]


def worth_curve(policy: type[WorthPolicy], arrivals_us: Sequence[Arrivals], until_us: int | None) -> list[Point]:
    """Return a policy's share and cost at each of `KNOBS_USD`."""
    return points(arrivals_us, [policy.worth(Fraction(str(knob))) for knob in KNOBS_USD], until_us)


def matched(curve: Sequence[Point], share_pct: float) -> Match | None:
    """Return the curve's cost at a share, interpolated between the first two adjacent points around it.

    A mixture of these two settings has exactly this share and cost. Return None if no two points enclose the share,
    because the curve is never extrapolated.
    """
    for i, (lower, upper) in enumerate(pairwise(curve)):
        if lower.share_pct <= share_pct <= upper.share_pct and lower.share_pct < upper.share_pct:
            return Match(_mixed_usd(lower, upper, share_pct), KNOBS_USD[i])
    return None


def hull_usd(curve: Sequence[Point], share_pct: float) -> float | None:
    """Return the minimum cost of a mixture of two settings with this share [USD].

    The result lies on the curve's lower convex hull. Return None if all settings have larger shares, or all have
    smaller shares.
    """
    lower = [point for point in curve if point.share_pct <= share_pct]
    upper = [point for point in curve if point.share_pct >= share_pct]
    return min((_mixed_usd(one, other, share_pct) for one in lower for other in upper), default=None)


def _mixed_usd(one: Point, other: Point, share_pct: float) -> float:
    """Return the cost of mixing two settings to reach a share between their shares [USD]."""
    if one.share_pct == other.share_pct:
        return min(one.usd, other.usd)
    part = (share_pct - one.share_pct) / (other.share_pct - one.share_pct)
    return one.usd + part * (other.usd - one.usd)


def clairvoyant_usd(arrivals_us: Sequence[Arrivals], share_pct: float) -> float:
    """Return a lower bound on the cost at a share [USD], with perfect foresight and cache functions of at least 1 s.

    For any miss price, the minimum objective minus the price times the misses is a lower bound on the cost. The result
    is the highest bound over twelve prices.
    """
    misses = sum(len(t) for t in arrivals_us) * (100 - share_pct) / 100
    best_usd = 0.0
    for penalty_usd in PENALTIES_USD:
        penalty_units = round(penalty_usd * UNITS_PER_USD)
        units = sum(least_cost(t, penalty_units, variant=Variant.SHORT_LAMBDA)[0] for t in arrivals_us)
        best_usd = max(best_usd, (units - penalty_units * misses) / UNITS_PER_USD)
    return best_usd / len(arrivals_us)


def memoryless_usd(duration_s: float, share_pct: float) -> float:
    """Return the minimum expected cost of any online policy on Poisson requests [USD].

    Poisson arrivals are memoryless, so a hit ratio requires the object in memory for the same share of time. Redis is
    the cheapest memory per second.
    """
    return share_pct / 100 * duration_s * US_PER_S * REDIS_UNITS_PER_US / UNITS_PER_USD
