"""Touches of slices: requests for large objects as reads of aligned slices, which readers and tiers cache one by one.

A request touches each slice that its range overlaps, and is a hit if all of them are cached. Ranges of one object share
slices if the log has their offsets. A range without an offset counts as a piece of its own that begins with a slice.
Small objects are touched as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache.core.slices import SLICE_BYTES
from burstcache_sim.bill.locality import Locality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A log of vast objects touches too many slices to count each. Its slices are doubled until they are this few.
MAX_TOUCHES = 200_000
_GET_BYTES = 8 << 20  # the longest range that a reader requests at once


@dataclass(frozen=True, slots=True, eq=False)
class Touches:
    """The touches of a log, in order: each request's, from its first slice to its last."""

    locality: Locality  # a request per touch, an object per slice or small object
    first: NDArray[np.int64]  # index of each request's first touch
    places: NDArray[np.int64]  # index of each touch's slice within its object
    is_slice: NDArray[np.bool_]  # by id in `locality`: whether it is a slice, not a small object
    slice_bytes: int  # above `SLICE_BYTES` for logs of vast objects

    def spread(self, of_requests: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of requests as a mask of their touches."""
        import numpy as np

        return np.repeat(of_requests, np.diff(np.append(self.first, len(self.places))))

    def requests(self, of_touches: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the mask of the requests of which any touch is in a mask."""
        import numpy as np

        return np.asarray(np.logical_or.reduceat(of_touches, self.first))

    def farthest(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each request's largest stack distance, -1 if any of its touches has none [bytes]."""
        import numpy as np

        farthest = np.maximum.reduceat(np.where(distances < 0, np.iinfo(np.int64).max, distances), self.first)
        return np.where(farthest == np.iinfo(np.int64).max, -1, farthest)

    def gets(self, missed: NDArray[np.bool_]) -> int:
        """Return the number of GETs for missed touches: one for adjacent slices, up to 8 MiB.

        A slice above 8 MiB counts as read whole, which is an upper bound.
        """
        import numpy as np

        begins = missed.copy()
        begins[1:] &= ~(missed[:-1] & _may_continue(self)[1:])
        gets = int(np.count_nonzero(begins))
        if (each := self.slice_bytes // _GET_BYTES) > 1:
            gets += (each - 1) * int(np.count_nonzero(self.is_slice[self.locality.ids[begins]]))
        return gets


@lru_cache(maxsize=4)  # asked for each setup
def _may_continue(touches: Touches) -> NDArray[np.bool_]:
    """Return whether each touch may be part of the preceding touch's GET."""
    import numpy as np

    may_continue = touches.places % max(1, _GET_BYTES // touches.slice_bytes) != 0
    may_continue[touches.first] = False
    return np.asarray(may_continue)


@lru_cache(maxsize=8)
def touches_of(locality: Locality, above_bytes: int) -> Touches | None:
    """Return the touches of a log, or None if it has no object above a size.

    Args:
        locality: The log.
        above_bytes: Size above which an object is read in slices [bytes].
    """
    import numpy as np

    is_large = locality.objects_bytes > above_bytes
    if not is_large.any():
        return None
    sizes_bytes, ids = locality.sizes_bytes, locality.ids
    starts_bytes = np.zeros_like(sizes_bytes) if locality.starts_bytes is None else np.maximum(0, locality.starts_bytes)
    slice_bytes = SLICE_BYTES
    while True:
        firsts = np.where(is_large, starts_bytes // slice_bytes, 0)
        lasts = np.where(is_large, (starts_bytes + np.maximum(sizes_bytes, 1) - 1) // slice_bytes, 0)
        counts = lasts - firsts + 1
        if float(counts[ids].astype(np.float64).sum()) <= MAX_TOUCHES + len(ids):
            break
        slice_bytes *= 2
    # One row for each slice of each key, then one number for each distinct slice of an object.
    objects = np.arange(len(sizes_bytes)) if locality.object_ids is None else locality.object_ids
    keys = np.repeat(np.arange(len(sizes_bytes)), counts)
    row_of_key = np.cumsum(counts) - counts
    places = firsts[keys] + np.arange(len(keys)) - row_of_key[keys]
    # Ranges of a small object remain separate, as do ranges without an offset.
    owners = np.where(is_large & _has_offset(locality), objects, len(objects) + np.arange(len(objects)))
    dense = np.unique(places, return_inverse=True)[1]  # so that the numbers fit 64 bits
    numbers = owners[keys] * (int(dense.max()) + 1) + dense
    _, first_row, slice_of_row = np.unique(numbers, return_index=True, return_inverse=True)
    first_key = keys[first_row]
    ends = np.minimum((places[first_row] + 1) * slice_bytes, locality.objects_bytes[first_key])
    slice_sizes = np.where(
        is_large[first_key], np.maximum(1, ends - places[first_row] * slice_bytes), sizes_bytes[first_key]
    )
    renewed = None
    if locality.renewed is not None:  # a slice keeps its name if any key that touches it does
        renewed = np.ones(len(first_row), np.bool_)
        np.logical_and.at(renewed, slice_of_row, locality.renewed[keys])
    of_request = counts[ids]
    first = np.cumsum(of_request) - of_request
    rows = np.repeat(row_of_key[ids], of_request) + np.arange(int(of_request.sum())) - np.repeat(first, of_request)
    # A larger slice stands for several of the usual size, each of which is cached by itself.
    whole_bytes = np.where(is_large[first_key], np.minimum(slice_sizes, SLICE_BYTES), locality.objects_bytes[first_key])
    return Touches(
        replace(
            locality,
            times_us=np.repeat(locality.times_us, of_request),
            ids=slice_of_row[rows].astype(np.int64),
            sizes_bytes=slice_sizes,
            numbers=None,
            renewed=renewed,
            whole_bytes=whole_bytes,
            object_ids=None,
            starts_bytes=None,
            _curves={},
        ),
        first,
        places[rows],
        is_large[first_key],
        slice_bytes,
    )


def _has_offset(locality: Locality) -> NDArray[np.bool_]:
    import numpy as np

    every = np.ones(len(locality.sizes_bytes), np.bool_)
    return every if locality.starts_bytes is None else np.asarray(locality.starts_bytes >= 0)
