"""Loads of a map: one day's Zipf-distributed requests for objects, within a part of the day.

A load requests whole small objects of equal size, or aligned ranges of large objects. An object's ranges are equally
popular. Random draws are deterministic. For a large load, only a sample of the keys is drawn, by rank
(`traces.trace.KeySample`). The sample lacks the most requested keys, but their misses are negligible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.ranges import piece_text
from burstcache_sim.traces.trace import KeySample, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OBJECT_BYTES = 100_000
RANGE_BYTES = 1 << 20
LARGE_MIB = (64, 1024)  # sizes of large objects, evenly distributed in their logarithm [MiB]
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
    by_ranges: bool = False  # whether objects are large and read by ranges

    @property
    def objects(self) -> int:
        """The number of objects."""
        least, most = LARGE_MIB
        mean_bytes = RANGE_BYTES * (most - least) / log(most / least) if self.by_ranges else OBJECT_BYTES
        return max(1, round(self.working_set_gb * 1e9 / mean_bytes))

    @property
    def requests(self) -> int:
        """The number of requests in a day."""
        return max(1, round(self.per_s * self.duty * DAY_US / US_PER_S))


def trace_of(load: Load) -> Trace:
    """Return the trace of one day of a load, or of a sample of its keys."""
    import numpy as np

    seed = [round(load.working_set_gb * 1e6), round(load.duty * 1e6), round(load.per_s * 1e6)]
    draw = np.random.default_rng(seed)
    objects_bytes = _large_bytes(load.objects) if load.by_ranges else np.full(load.objects, OBJECT_BYTES, np.int64)
    ranges = objects_bytes // RANGE_BYTES if load.by_ranges else np.ones(load.objects, np.int64)
    shares = np.repeat(_shares(load.objects) / ranges, ranges)
    keys = len(shares)
    rate = min(1.0, max(_MOST_REQUESTS / load.requests, _LEAST_KEYS / keys))
    count = max(1, round(keys * rate))
    ranks = ((np.arange(count) + 0.5) * (keys / count)).astype(np.int64)
    kept = shares[ranks]
    requests = max(1, round(load.requests * float(kept.sum()))) if rate < 1 else load.requests
    key_ids = np.searchsorted(np.cumsum(kept), draw.random(requests) * kept.sum()).astype(np.int32)
    times_us = np.sort((draw.random(requests) * load.duty * DAY_US).astype(np.int64))
    sample = KeySample(count / keys, load.requests) if count < keys else None
    sizes_bytes = np.full(requests, RANGE_BYTES if load.by_ranges else OBJECT_BYTES, np.int64)
    trace = Trace(times_us, np.minimum(key_ids, count - 1), sizes_bytes, tuple(map(str, range(count))), sample)
    if not load.by_ranges:
        return trace
    owners = np.repeat(np.arange(load.objects), ranges)[ranks]
    starts = (ranks - (np.cumsum(ranges) - ranges)[owners]) * RANGE_BYTES
    objects = tuple(map(str, owners.tolist()))
    pieces = [piece_text(b"%d-%d" % (start, start + RANGE_BYTES - 1)) for start in starts.tolist()]
    names = tuple(name + piece for name, piece in zip(objects, pieces, strict=True))
    return replace(trace, keys=names, object_bytes=objects_bytes[owners][trace.key_ids], objects=objects)


def _large_bytes(count: int) -> NDArray[np.int64]:
    """Return the sizes of large objects in whole ranges. Size and popularity are independent."""
    import numpy as np

    least, most = LARGE_MIB
    sizes = least * (most / least) ** ((np.arange(count) + 0.5) / count)
    return np.random.default_rng(count).permutation(np.rint(sizes).astype(np.int64)) * RANGE_BYTES


def _shares(keys: int) -> NDArray[np.float64]:
    """Return each object's share of the requests, in descending order."""
    import numpy as np

    weights = np.arange(1, keys + 1, dtype=np.float64) ** -EXPONENT
    return np.asarray(weights / weights.sum(), np.float64)
