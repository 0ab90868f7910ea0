"""New objects: which objects of a log come under another name in each repetition of it.

A log that is repeated as it is never shows a new object, and a month of such repetitions looks nearly free of misses.
How many objects are new in the next span is estimated by how their number grows: from a quarter of the log to a half,
and from a half to the whole. The next doubling adds in proportion to the last one, and less if the last one added less
than the one before. As many objects are renewed in each repetition, chosen among the *passing* ones, those that one
half of the log has and the other lacks; an object of both halves stays.

Source:
    Heaps 1978, "Information Retrieval: Computational and Theoretical Aspects": the number of distinct items grows as a
    power of the length. The exponent is measured here, and may fall.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from burstcache_sim.bill.locality import Locality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEED = 1  # by which renewed objects are chosen among the passing ones


def with_renewal(locality: Locality) -> Locality:
    """Return a log whose repetitions bring as many new objects as its own growth lets expect."""
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
    """Return which objects one half of the log has and the other lacks, by time."""
    import numpy as np

    first, second = (_seen(part, len(locality.sizes_bytes)) for part in _parts(locality.times_us, locality.ids, 2))
    return np.asarray(first != second)


def new_objects(times_us: NDArray[np.int64], ids: NDArray[np.int64]) -> float:
    """Return how many objects a next span as long as this one is expected to show for the first time.

    Args:
        times_us: When each request comes, sorted [us].
        ids: Its object, from 0.
    """
    quarter, half, whole = (_mean_objects(times_us, ids, parts) for parts in (4, 2, 1))
    before, last = half / quarter - 1, whole / half - 1
    return whole * last * (min(1.0, last / before) if before > 0 else 1.0)


def _mean_objects(times_us: NDArray[np.int64], ids: NDArray[np.int64], parts: int) -> float:
    """Return the mean number of objects in equal parts of the span."""
    import numpy as np

    count = int(ids.max()) + 1
    return float(np.mean([np.count_nonzero(_seen(part, count)) for part in _parts(times_us, ids, parts)]))


def _parts(times_us: NDArray[np.int64], ids: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """Return the requests' objects in equal parts of the span."""
    import numpy as np

    first_us, last_us = int(times_us[0]), int(times_us[-1])
    ends_us = [first_us + (last_us - first_us) * part // parts for part in range(1, parts)]
    return np.split(ids, np.searchsorted(times_us, ends_us, side="right"))


def _seen(ids: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    import numpy as np

    return np.asarray(np.bincount(ids, minlength=count) > 0)
