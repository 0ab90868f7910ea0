"""Confidence in an answer of `burstcache advise`: what the second half had, and how well parts foretell others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.halves import LEAST_REQUESTS, Forecast, forecasts, half, sure_within_points
from burstcache_sim.bill.locality import EVERYTHING_BYTES, locality_of
from burstcache_sim.choose.advise.systems import Weighing
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import count_text, duration_text, number_text

_MEMORIES_MB = (64, 256, 1024, 4096)
_MOST_POINTS = 25.0  # that a share may be off for the answer to stand


@dataclass(frozen=True, slots=True)
class MonthShare:
    """The hits of one LRU memory: in the month that decides, and in the log's second half."""

    memory_bytes: int
    month_pct: float
    measured_pct: float | None  # of the second half, after the first; None: a half has too few requests
    expected_pct: float | None  # of it, foretold from the first half alone
    sure_points: float | None  # a share is the one given, give or take as many; None: nothing says how sure it is


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure an answer is."""

    halves: tuple[int, int]  # requests of each
    new_objects: float  # that each repetition brings
    shares: tuple[MonthShare, ...]  # of the memory that matters first
    too_short: str  # why the log says nothing; empty if it says something


def confidence_of(weighing: Weighing, memory_bytes: int) -> Confidence:
    """Return how sure an answer is that rests on a memory of this size [bytes]."""
    workload, locality = weighing.workload, weighing.locality
    first = half(locality)
    sizes = list(dict.fromkeys((memory_bytes, *(mb * 1024**2 for mb in _MEMORIES_MB), EVERYTHING_BYTES)))
    once = locality_of(workload.trace, object_bytes=workload.setup.object_bytes, period_us=workload.demand.period_us)
    found = forecasts(once, sizes, renews=not workload.same_objects)
    second = len(locality.ids) - first
    shares = tuple(_share(weighing, size_bytes, found[size_bytes], second) for size_bytes in sizes)
    halves = (first, second)
    demand = workload.demand
    span_us = demand.last_us - demand.first_us
    is_repeated = demand.period_us <= max(span_us, 60 * US_PER_S)
    return Confidence(
        halves=halves,
        new_objects=float(locality.new_objects),
        shares=shares,
        too_short=_too_short(halves, span_us if is_repeated else None, weighing.repeats, shares),
    )


def memory_text(memory_bytes: int) -> str:
    """Return a memory in words."""
    if memory_bytes >= EVERYTHING_BYTES:
        return "a warm cache that drops nothing"
    return f"a warm cache of {number_text(memory_bytes / 1024**2)} MB"


def _share(weighing: Weighing, memory_bytes: int, found: Sequence[Forecast], second: int) -> MonthShare:
    """Return what forecasts of a memory say of its month; the first is of the second half, if that has one."""
    missed = weighing.locality.misses(memory_bytes, repeats=weighing.workload.repeats_per_month)
    month_pct = max(0.0, 100 * float(1 - missed / weighing.workload.demand.requests))
    of_half = found[0] if found and found[0].requests == second else None
    measured_pct, expected_pct = (None, None) if of_half is None else (of_half.measured_pct, of_half.expected_pct)
    # That the same objects come again is not seen inside of the log: somebody knows it.
    sure_points = None if weighing.workload.same_objects else sure_within_points(found)
    return MonthShare(memory_bytes, month_pct, measured_pct, expected_pct, sure_points)


def _too_short(
    halves: tuple[int, int], back_to_back_us: int | None, repeats: float, shares: Sequence[MonthShare]
) -> str:
    if min(halves) < LEAST_REQUESTS:
        requests = count_text(sum(halves), "request")
        return (
            f"{requests}, {halves[0]:,} in the log's first half and {halves[1]:,} in its second, of at least 100 each"
        )
    if back_to_back_us is not None and back_to_back_us < US_PER_H:
        lasts = duration_text(back_to_back_us / US_PER_S)
        return f"{lasts} of requests, {number_text(repeats, digits=3)} times in a month, of at least an hour"
    points = shares[0].sure_points
    if points is not None and points > _MOST_POINTS:
        return f"parts of the log foretell the next part to {points:.0f} points of hits, of at most {_MOST_POINTS:.0f}"
    return ""
