"""Halves of a log as hold-out tests, which compare the hits of one part with a forecast from the preceding part.

All hits refer to one LRU cache that stays warm. The log itself yields four forecast errors: from the first half to the
second, and from each quarter to the next. The newest of five exchangeable forecasts is the worst with probability 1/5,
so the stated margin is twice the largest error (`docs/evidence/measurements/advice.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.renewal import with_renewal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_REQUESTS = 100  # in either part
_QUARTERS = (0, 1, 2, 3, 4)
_HALVES = (0, 2, 4)  # in quarters: start of a part, its end, end of the next part
_SPANS = (_HALVES, (0, 1, 2), (1, 2, 3), (2, 3, 4))
_SIGMAS = 2.0  # sampling error in standard deviations
_MARGIN = 2.0  # margin, as a multiple of the largest error


@dataclass(frozen=True, slots=True)
class Forecast:
    """Hit ratio of one part of a log: forecast from the preceding part, and measured."""

    memory_bytes: int
    expected_pct: float
    measured_pct: float
    requests: int  # in the forecast part
    is_of_half: bool = False  # the forecast part is the log's second half

    @property
    def error_points(self) -> float:
        """The error in percentage points, negative if the forecast was too low."""
        return self.expected_pct - self.measured_pct

    @property
    def chance_points(self) -> float:
        """Two standard deviations of the sampling error of the measured hit ratio, in percentage points."""
        share = min(max(self.measured_pct / 100, 1 / self.requests), 1 - 1 / self.requests)
        return 100 * _SIGMAS * sqrt(share * (1 - share) / self.requests)


def half(locality: Locality) -> int:
    """Return the number of requests in the first half of the log's time span."""
    return int(_ends(locality)[2])


def forecasts(locality: Locality, memories_bytes: Sequence[int], *, renews: bool = True) -> dict[int, list[Forecast]]:
    """Forecast the hit ratio of a log's parts by memory size, each part from its preceding part.

    A pair of parts is skipped if either part has fewer than `MIN_REQUESTS` requests. So there may be no forecast of the
    second half.

    Args:
        locality: The log.
        memories_bytes: Memory of each cache to forecast [bytes].
        renews: Whether to expect new objects in the next part.
    """
    import numpy as np

    ends = _ends(locality)
    by_memory: dict[int, list[Forecast]] = {memory_bytes: [] for memory_bytes in memories_bytes}
    for first, middle, last in _SPANS:
        at, until = int(ends[middle] - ends[first]), int(ends[last] - ends[first])
        if min(at, until - at) < MIN_REQUESTS:
            continue
        index = np.arange(len(locality.ids))
        part = locality.part((index >= ends[first]) & (index < ends[last]))
        before = part.part(np.arange(until) < at)
        expected = expected_next_pct(before, memories_bytes, renews=renews)
        measured = measured_pct(part, at, memories_bytes)
        for memory_bytes, series in by_memory.items():
            forecast = Forecast(memory_bytes, expected[memory_bytes], measured[memory_bytes], until - at)
            series.append(replace(forecast, is_of_half=(first, middle, last) == _HALVES))
    return by_memory


def expected_next_pct(part: Locality, memories_bytes: Sequence[int], *, renews: bool = True) -> dict[int, float]:
    """Return the expected hit ratio of the next part for a cache warmed up by this part, by memory size [%]."""
    part = with_renewal(part) if renews else part

    def warm_misses(memory_bytes: int) -> Fraction:
        once, twice = (part.misses(memory_bytes, repeats=Fraction(repeats)) * repeats for repeats in (1, 2))
        return twice - once

    return {memory_bytes: 100 * float(1 - warm_misses(memory_bytes) / part.requests) for memory_bytes in memories_bytes}


def measured_pct(locality: Locality, first: int, memories_bytes: Sequence[int]) -> dict[int, float]:
    """Return the hit ratio from index `first` on for a cache warmed up by earlier requests, by memory size [%]."""
    return {
        memory_bytes: 100 * float(hits[first:].mean()) for memory_bytes, hits in _hits(locality, memories_bytes).items()
    }


def margin_points(series: Sequence[Forecast]) -> float | None:
    """Return twice the worst forecast error, at least the second half's sampling error (None: it has no forecast)."""
    if (of_half := forecast_of_half(series)) is None:
        return None
    worst = max(abs(forecast.error_points) for forecast in series)
    return min(100.0, max(_MARGIN * worst, of_half.chance_points))


def forecast_of_half(series: Sequence[Forecast]) -> Forecast | None:
    """Return the forecast of the log's second half from its first, or None if a half has too few requests."""
    return next((forecast for forecast in series if forecast.is_of_half), None)


def _hits(locality: Locality, memories_bytes: Sequence[int]) -> dict[int, NDArray[np.bool_]]:
    """Return each cache's mask of hits, by memory size. Objects larger than a cache bypass this cache."""
    import numpy as np

    from burstcache_sim.engine.stack_distance import NEVER, stack_distances

    by_fitting: dict[int, NDArray[np.int64]] = {}
    hits = {}
    for memory_bytes in memories_bytes:
        sample_bytes = int(memory_bytes * locality.rate)
        fits = locality.sizes_bytes <= sample_bytes
        if (fitting := int(fits.sum())) not in by_fitting:
            distances = np.full(len(locality.ids), NEVER, np.int64)
            part, is_renewed = locality.part(fits[locality.ids]), np.zeros(fitting, np.bool_)
            distances[fits[locality.ids]] = stack_distances(part.ids, part.sizes_bytes, is_renewed)[0]
            by_fitting[fitting] = distances
        distances = by_fitting[fitting]
        hits[memory_bytes] = (distances >= 0) & (distances <= sample_bytes)
    return hits


def _ends(locality: Locality) -> NDArray[np.int64]:
    """Return the request index at which each quarter of the time span ends, preceded by 0."""
    import numpy as np

    times_us = locality.times_us
    first_us, span_us = int(times_us[0]), int(times_us[-1]) - int(times_us[0])
    ends = np.searchsorted(times_us, [first_us + span_us * quarter // 4 for quarter in _QUARTERS], side="right")
    ends[0] = 0
    return np.asarray(ends, np.int64)
