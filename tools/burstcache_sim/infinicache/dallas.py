"""A synthetic Dallas trace, in place of the 50-hour Docker registry trace in InfiniCache's evaluation.

The paper does not include the original trace. The synthetic trace has the paper's statistics: requests per hour,
working set size, ElastiCache's hit ratio (table 1), the share of large objects read again within an hour, and the
hours of high load. Object popularity and size distribution are this project's assumptions.

Source:
    Wang 2020, table 1, figure 1, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache_sim.traces.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOURS = 50
LARGE_BYTES = 10_000_000
_GB = 1_000_000_000
_BUSY_HOURS = ((15, 20), (34, 42))  # the spikes in figure 14
_BUSY = 3.0  # load of a busy hour, relative to other hours
_RECENT = 0.2  # puts 45 % of repeated reads within an hour of the previous read (paper: 37 to 46 %)
_SPREAD = 1.2  # standard deviation of the size's logarithm


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the trace for either large or small objects."""

    requests: int
    stored_bytes: int
    new_share: float  # share of requests that are an object's first read, which determines ElastiCache's hit ratio
    least_bytes: int
    most_bytes: int


LARGE = Part(750 * HOURS, 1_036 * _GB, 0.324, LARGE_BYTES, 4 * _GB)
SMALL = Part((3_654 - 750) * HOURS, 133 * _GB, 0.308, 1_000, LARGE_BYTES)


def large_objects(seed: int = 1) -> Trace:
    """Return the requests for objects above 10 MB."""
    return _joined([_requests(LARGE, seed)])


def all_objects(seed: int = 1) -> Trace:
    """Return the requests for all objects. The requests for objects above 10 MB equal `large_objects`."""
    return _joined([_requests(LARGE, seed), _requests(SMALL, seed + 1)])


def _requests(part: Part, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return arrivals [us], each request's object id, and object sizes [bytes]."""
    import numpy as np

    random = np.random.default_rng(seed)
    hours = np.ones(HOURS)
    for first, last in _BUSY_HOURS:
        hours[first:last] = _BUSY
    of_hour = random.choice(HOURS, part.requests, p=hours / hours.sum())
    times_us = np.sort(((of_hour + random.random(part.requests)) * 3_600e6).astype(np.int64))
    is_new = random.random(part.requests) < part.new_share
    is_new[0] = True
    exponents = random.random(part.requests) ** _RECENT  # the reuse distance is (requests so far) ** exponent
    ids = np.zeros(part.requests, np.int64)
    objects = 0
    for i in range(part.requests):
        if is_new[i]:
            ids[i] = objects
            objects += 1
        else:
            ids[i] = ids[i - min(i, int(i ** exponents[i]))]
    sizes = random.lognormal(0.0, _SPREAD, objects)
    return times_us, ids, _scaled(sizes, part)


def _scaled(sizes: NDArray[np.float64], part: Part) -> NDArray[np.int64]:
    """Scale sizes to the part's total within the part's bounds, by a bisection over the median size."""
    import numpy as np

    low, high = float(part.least_bytes) / 100, float(part.most_bytes)
    for _ in range(60):
        median = (low * high) ** 0.5
        scaled = np.clip(sizes * median, part.least_bytes, part.most_bytes)
        low, high = (median, high) if scaled.sum() < part.stored_bytes else (low, median)
    return np.asarray(scaled, np.int64)


def _joined(parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]) -> Trace:
    import numpy as np

    first_ids = np.cumsum([0, *(len(sizes) for _, _, sizes in parts)])
    times_us = np.concatenate([times for times, _, _ in parts])
    ids = np.concatenate([ids + first for (_, ids, _), first in zip(parts, first_ids, strict=False)])
    sizes = np.concatenate([sizes for _, _, sizes in parts])
    order = np.argsort(times_us, kind="stable")
    keys = tuple(map(str, range(len(sizes))))
    return Trace(times_us[order], ids[order].astype(np.int32), sizes[ids[order]], keys)
