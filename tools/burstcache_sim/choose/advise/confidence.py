"""Confidence in the advice: the hit ratio in the log's second half, and the error of forecasts within the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.halves import MIN_REQUESTS, Forecast, forecast_of_half, forecasts, half, margin_points
from burstcache_sim.bill.locality import EVERYTHING_BYTES, locality_of
from burstcache_sim.choose.advise.reassessment import FEW_RANGES
from burstcache_sim.choose.advise.systems import Weighing
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import count_text, duration_text, number_text

_MEMORIES_MB = (64, 256, 1024, 4096)
_NARROW_POINTS = 1.0  # difference between assumptions about ranges that does not count
_MOST_POINTS = 25.0  # largest hit ratio error that allows a verdict


@dataclass(frozen=True, slots=True)
class MonthShare:
    """One LRU memory's hit ratio in a month of repetitions and in the log's second half."""

    memory_bytes: int
    month_pct: float
    measured_pct: float | None  # in the second half, after warm-up by the first (None if a half has too few requests)
    expected_pct: float | None  # in the second half, forecast from the first
    sure_points: float | None  # error of the hit ratio, plus or minus (None without a forecast)


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence in the advice."""

    halves: tuple[int, int]  # requests in each half
    new_objects: float  # new objects per repetition
    shares: tuple[MonthShare, ...]  # the best buy's memory comes first
    too_short: str  # reason for no verdict (empty if the log suffices)
    bracket_pct: tuple[float, float] | None = None  # the best buy's hit ratios under two assumptions about ranges
    is_assumed: bool = False  # whether hits rest on ranges whose offset the log does not show


def confidence_of(
    weighing: Weighing, memory_bytes: int, *, bracket_pct: tuple[float, float] | None = None
) -> Confidence:
    """Return the confidence in advice that depends on a memory of this size [bytes].

    Args:
        weighing: Conditions of the comparison.
        memory_bytes: Memory of the best buy [bytes].
        bracket_pct: The best buy's hit ratios if ranges without an offset tile their objects, and if equal lengths are
            the same range, or None if they are unknown [%].
    """
    workload, locality = weighing.workload, weighing.locality
    first = half(locality)
    sizes = list(dict.fromkeys((memory_bytes, *(mb * 1024**2 for mb in _MEMORIES_MB), EVERYTHING_BYTES)))
    once = locality_of(workload.trace, object_bytes=workload.setup.object_bytes, period_us=workload.demand.period_us)
    by_size = forecasts(once, sizes, renews=not workload.same_objects)
    shares = tuple(_share(weighing, size_bytes, by_size[size_bytes]) for size_bytes in sizes)
    halves = (first, len(locality.ids) - first)
    demand = workload.demand
    span_us = demand.last_us - demand.first_us
    has_assumed = workload.trace.assumed_ranges > FEW_RANGES * len(workload.trace)
    is_repeated = demand.period_us <= max(span_us, 60 * US_PER_S)
    return Confidence(
        halves=halves,
        new_objects=float(locality.new_objects),
        shares=shares,
        too_short=_too_short(halves, span_us if is_repeated else None, weighing.repeats, shares),
        bracket_pct=bracket_pct,
        is_assumed=has_assumed and (bracket_pct is None or bracket_pct[1] - bracket_pct[0] > _NARROW_POINTS),
    )


def memory_text(memory_bytes: int) -> str:
    """Describe a memory size."""
    if memory_bytes >= EVERYTHING_BYTES:
        return "a warm cache without evictions"
    return f"a warm cache of {number_text(memory_bytes / 1024**2)} MB"


def _share(weighing: Weighing, memory_bytes: int, of_parts: Sequence[Forecast]) -> MonthShare:
    """Return a memory's hit ratio and its forecast error."""
    missed = weighing.locality.misses(memory_bytes, repeats=weighing.workload.repeats_per_month)
    month_pct = max(0.0, 100 * float(1 - missed / weighing.workload.demand.requests))
    of_half = forecast_of_half(of_parts)
    measured_pct, expected_pct = (None, None) if of_half is None else (of_half.measured_pct, of_half.expected_pct)
    # The log cannot show whether repetitions read the same objects. Only the user knows.
    sure_points = None if weighing.workload.same_objects else margin_points(of_parts)
    return MonthShare(memory_bytes, month_pct, measured_pct, expected_pct, sure_points)


def _too_short(
    halves: tuple[int, int], back_to_back_us: int | None, repeats: float, shares: Sequence[MonthShare]
) -> str:
    if min(halves) < MIN_REQUESTS:
        requests = count_text(sum(halves), "request")
        return (
            f"{requests}, {halves[0]:,} in the log's first half and {halves[1]:,} in its second, but at least"
            f" {MIN_REQUESTS} are needed in each"
        )
    if back_to_back_us is not None and back_to_back_us < US_PER_H:
        lasts, times = duration_text(back_to_back_us / US_PER_S), number_text(repeats, digits=3)
        return f"{lasts} of requests, repeated {times} times a month, but at least an hour is needed"
    points = shares[0].sure_points
    if points is not None and points > _MOST_POINTS:
        most = f"at most {_MOST_POINTS:.0f} are accepted"
        return f"by forecasts within the log, a hit ratio has an error of +/- {points:.0f} points, but {most}"
    return ""
