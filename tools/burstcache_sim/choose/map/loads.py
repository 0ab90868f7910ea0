"""Loads of a map: one day's Zipf-distributed requests for objects of equal size, within a part of the day.

Random draws are deterministic. For a large load, only a sample of the keys is drawn, by rank
(`traces.trace.KeySample`). The sample lacks the most requested keys, but their misses are negligible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.trace import KeySample, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OBJECT_BYTES = 100_000
EXPONENT = 0.8  # exponent of Zipf's law
DAY_US = 86_400 * US_PER_S
_MOST_REQUESTS = 5_000  # to draw per load; `_LEAST_KEYS` may require more
_LEAST_KEYS = 50


@dataclass(frozen=True, slots=True)
class Load:
    """One load of the map."""

    working_set_gb: float  # total size of all objects
    duty: float  # share of each day with requests, above 0 and at most 1
    per_s: float  # request rate within that share of the day

    @property
    def keys(self) -> int:
        """The number of objects."""
        return max(1, round(self.working_set_gb * 1e9 / OBJECT_BYTES))

    @property
    def requests(self) -> int:
        """The number of requests in a day."""
        return max(1, round(self.per_s * self.duty * DAY_US / US_PER_S))


def trace_of(load: Load) -> Trace:
    """Return the trace of one day of a load, or of a sample of its keys."""
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
    sample = KeySample(count / load.keys, load.requests) if count < load.keys else None
    return Trace(times_us, np.minimum(key_ids, count - 1), sizes_bytes, tuple(map(str, range(count))), sample)


def _shares(keys: int) -> NDArray[np.float64]:
    """Return each key's share of the requests, in descending order."""
    import numpy as np

    weights = np.arange(1, keys + 1, dtype=np.float64) ** -EXPONENT
    return np.asarray(weights / weights.sum(), np.float64)
