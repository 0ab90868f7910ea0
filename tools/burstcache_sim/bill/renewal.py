"""Renewal of objects: some objects get a new name in each repetition of a log.

Plain repetitions of a log contain no new objects, so a month of plain repetitions would have almost no misses. The
number of new objects is extrapolated from the log's growth: from a quarter to a half, and from a half to the whole.
The next doubling is expected to add the same proportion as the last doubling, or less if growth is slowing. Each
repetition renews that many objects, chosen at random among *passing* objects, which occur in only one half of the log.
Objects that occur in both halves keep their names.

Source:
    Heaps 1978, "Information Retrieval: Computational and Theoretical Aspects": the number of distinct items grows as a
    power of the length. Here the exponent is measured and may decrease.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from burstcache_sim.bill.locality import Locality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEED = 1  # for the choice of renewed objects


def with_renewal(locality: Locality) -> Locality:
    """Return a log with as many new objects per repetition as its growth predicts."""
    import numpy as np

    expected = new_objects(locality.times_us, locality.ids)
    passing = np.flatnonzero(is_passing(locality))
    count = min(round(expected), len(passing))
    if not count:
        return locality
    renewed = np.zeros(len(locality.sizes_bytes), np.bool_)
    renewed[np.random.default_rng(_SEED).permutation(passing)[:count]] = True
    return replace(locality, renewed=renewed, _curves={})


def is_passing(locality: Locality) -> NDArray[np.bool_]:
    """Return whether each object occurs in only one half of the log's time span."""
    import numpy as np

    first, second = (_occurs(part, len(locality.sizes_bytes)) for part in _parts(locality.times_us, locality.ids, 2))
    return np.asarray(first != second)


def new_objects(times_us: NDArray[np.int64], ids: NDArray[np.int64]) -> float:
    """Return the expected number of new objects in the next span of the same length.

    Args:
        times_us: Time of each request, sorted [us].
        ids: Object of each request, from 0.
    """
    quarter, half, whole = (_mean_objects(times_us, ids, parts) for parts in (4, 2, 1))
    before, last = half / quarter - 1, whole / half - 1
    return whole * last * (min(1.0, last / before) if before > 0 else 1.0)


def _mean_objects(times_us: NDArray[np.int64], ids: NDArray[np.int64], parts: int) -> float:
    """Return the mean number of distinct objects in equal parts of the time span."""
    import numpy as np

    count = int(ids.max()) + 1
    return float(np.mean([np.count_nonzero(_occurs(part, count)) for part in _parts(times_us, ids, parts)]))


def _parts(times_us: NDArray[np.int64], ids: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """Split the requests' object ids into equal parts of the time span."""
    import numpy as np

    first_us, last_us = int(times_us[0]), int(times_us[-1])
    ends_us = [first_us + (last_us - first_us) * part // parts for part in range(1, parts)]
    return np.split(ids, np.searchsorted(times_us, ends_us, side="right"))


def _occurs(ids: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    import numpy as np

    return np.asarray(np.bincount(ids, minlength=count) > 0)
