"""Halves of a log: what a part of it lets expect of the next part, and what that part really had.

The shares are those of one LRU cache that stays warm. How far such a forecast is off is measured on the log itself:
from its first half to the second, and from each quarter to the next. Of five forecasts alike the newest is the worst
once in five, so an answer promises twice the largest error (`docs/evidence/measurements/advice.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.renewal import with_renewal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_REQUESTS = 100  # in either part
_QUARTERS = (0, 1, 2, 3, 4)
_SPANS = ((0, 2, 4), (0, 1, 2), (1, 2, 3), (2, 3, 4))  # by quarters: from, up to, and up to where the next part ends
_SIGMAS = 2.0  # of a share of few requests
_MARGIN = 2.0  # times the largest error that was met


@dataclass(frozen=True, slots=True)
class Forecast:
    """A share of hits that a part of a log lets expect of the next part, and what that part had."""

    memory_bytes: int
    expected_pct: float
    measured_pct: float
    requests: int  # of the next part

    @property
    def error_points(self) -> float:
        """By how much it was too high; below 0 if it was too low."""
        return self.expected_pct - self.measured_pct

    @property
    def chance_points(self) -> float:
        """How far a share of as few requests is off by chance."""
        share = min(max(self.measured_pct / 100, 1 / self.requests), 1 - 1 / self.requests)
        return 100 * _SIGMAS * sqrt(share * (1 - share) / self.requests)


def half(locality: Locality) -> int:
    """Return how many requests the first half has, by time."""
    return int(_ends(locality)[2])


def forecasts(locality: Locality, memories_bytes: Sequence[int], *, renews: bool = True) -> dict[int, list[Forecast]]:
    """Return forecasts of parts of a log from the part before, its second half first; none of parts with few requests.

    Args:
        locality: The log.
        memories_bytes: Of the caches; each has its forecasts [bytes].
        renews: Whether the next part is expected to have new objects.
    """
    import numpy as np

    ends = _ends(locality)
    found: dict[int, list[Forecast]] = {memory_bytes: [] for memory_bytes in memories_bytes}
    for first, middle, last in _SPANS:
        at, until = int(ends[middle] - ends[first]), int(ends[last] - ends[first])
        if min(at, until - at) < LEAST_REQUESTS:
            continue
        index = np.arange(len(locality.ids))
        part = locality.part((index >= ends[first]) & (index < ends[last]))
        before = part.part(np.arange(until) < at)
        expected = expected_next_pct(before, memories_bytes, renews=renews)
        measured = measured_pct(part, at, memories_bytes)
        for memory_bytes, forecast in found.items():
            forecast.append(Forecast(memory_bytes, expected[memory_bytes], measured[memory_bytes], until - at))
    return found


def expected_next_pct(part: Locality, memories_bytes: Sequence[int], *, renews: bool = True) -> dict[int, float]:
    """Return the share of hits to expect of the next span, with this one's objects in memory, by the memory [%]."""
    part = with_renewal(part) if renews else part

    def again(memory_bytes: int) -> Fraction:
        once, twice = (part.misses(memory_bytes, repeats=Fraction(repeats)) * repeats for repeats in (1, 2))
        return twice - once

    return {memory_bytes: 100 * float(1 - again(memory_bytes) / part.requests) for memory_bytes in memories_bytes}


def measured_pct(locality: Locality, first: int, memories_bytes: Sequence[int]) -> dict[int, float]:
    """Return the share of the requests from an index on that a cache answers which has met those before [%]."""
    return {
        memory_bytes: 100 * float(hits[first:].mean()) for memory_bytes, hits in _hits(locality, memories_bytes).items()
    }


def sure_within_points(found: Sequence[Forecast]) -> float | None:
    """Return how far a share may be off: twice the worst forecast, or as chance allows; None without a forecast."""
    if not found:
        return None
    worst = max(abs(one.error_points) for one in found)
    return min(100.0, max(_MARGIN * worst, found[0].chance_points))


def _hits(locality: Locality, memories_bytes: Sequence[int]) -> dict[int, NDArray[np.bool_]]:
    """Return which requests a cache answers, by its memory; larger objects pass it by."""
    import numpy as np

    from burstcache_sim.engine.stack_distance import NEVER, stack_distances

    by_fitting: dict[int, NDArray[np.int64]] = {}
    found = {}
    for memory_bytes in memories_bytes:
        held_bytes = int(memory_bytes * locality.rate)
        fits = locality.sizes_bytes <= held_bytes
        if (fitting := int(fits.sum())) not in by_fitting:
            distances = np.full(len(locality.ids), NEVER, np.int64)
            part, stays = locality.part(fits[locality.ids]), np.zeros(fitting, np.bool_)
            distances[fits[locality.ids]] = stack_distances(part.ids, part.sizes_bytes, stays)[0]
            by_fitting[fitting] = distances
        distances = by_fitting[fitting]
        found[memory_bytes] = (distances >= 0) & (distances <= held_bytes)
    return found


def _ends(locality: Locality) -> NDArray[np.int64]:
    """Return up to which request each quarter goes, by time; the first of these is 0."""
    import numpy as np

    times_us = locality.times_us
    first_us, span_us = int(times_us[0]), int(times_us[-1]) - int(times_us[0])
    ends = np.searchsorted(times_us, [first_us + span_us * quarter // 4 for quarter in _QUARTERS], side="right")
    ends[0] = 0
    return np.asarray(ends, np.int64)
