"""Loads for a map: a day's requests for objects of one size by Zipf's law, all within a part of the day.

The same load is always drawn alike. Of a large one a sample of the keys is drawn, by rank, as `traces.trace.Sample`
describes it: the most requested ones are not among them, since what they miss is nothing next to the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.trace import Sample, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OBJECT_BYTES = 100_000
EXPONENT = 0.8  # of Zipf's law
DAY_US = 86_400 * US_PER_S
_MOST_REQUESTS = 5_000  # that are drawn
_LEAST_KEYS = 50


@dataclass(frozen=True, slots=True)
class Load:
    """One load of the map."""

    working_set_gb: float  # of all objects together
    duty: float  # the part of each day in which there are requests, above 0 and at most 1
    per_s: float  # requests while there are any

    @property
    def keys(self) -> int:
        """How many objects there are."""
        return max(1, round(self.working_set_gb * 1e9 / OBJECT_BYTES))

    @property
    def requests(self) -> int:
        """How many requests a day has."""
        return max(1, round(self.per_s * self.duty * DAY_US / US_PER_S))


def trace_of(load: Load) -> Trace:
    """Return a day of a load, or of a sample of its keys."""
    import numpy as np

    draw = np.random.default_rng([round(load.working_set_gb * 1e6), round(load.duty * 1e6), round(load.per_s * 1e6)])
    rate = min(1.0, max(_MOST_REQUESTS / load.requests, _LEAST_KEYS / load.keys))
    shares = _shares(load.keys)
    count = max(1, round(load.keys * rate))
    ranks = ((np.arange(count) + 0.5) * (load.keys / count)).astype(np.int64)
    kept = shares[ranks]
    requests = max(1, round(load.requests * float(kept.sum()))) if rate < 1 else load.requests
    key_ids = np.searchsorted(np.cumsum(kept), draw.random(requests) * kept.sum()).astype(np.int32)
    times_us = np.sort((draw.random(requests) * load.duty * DAY_US).astype(np.int64))
    sizes_bytes = np.full(requests, OBJECT_BYTES, np.int64)
    sample = Sample(count / load.keys, load.requests) if count < load.keys else None
    return Trace(times_us, np.minimum(key_ids, count - 1), sizes_bytes, tuple(map(str, range(count))), sample)


def _shares(keys: int) -> NDArray[np.float64]:
    """Return the share of the requests of each key, the most requested first."""
    import numpy as np

    weights = np.arange(1, keys + 1, dtype=np.float64) ** -EXPONENT
    return np.asarray(weights / weights.sum(), np.float64)
