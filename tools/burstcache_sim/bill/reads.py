"""Reads of a log: its requests, and the touches of slices if tiers cache its large objects slice by slice."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache_sim.bill.locality import Locality, mean
from burstcache_sim.bill.touches import Touches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ReadMask:
    """Masks of the reads that reach a tier: in the first repetition, and in each further repetition."""

    first: NDArray[np.bool_]
    again: NDArray[np.bool_]

    def count(self, repeats: Fraction) -> Fraction:
        """Return the mean number of reads in a repetition."""
        return mean(int(self.first.sum()), int(self.again.sum()), repeats)


@dataclass(frozen=True, slots=True)
class Reads:
    """The reads of a log.

    Attributes:
        requests: The requests.
        touches: The touches of slices. None: no object is read in slices.
    """

    requests: Locality
    touches: Touches | None = None

    @property
    def cached(self) -> Locality:
        """The reads as tiers cache them: touches of slices, else requests. Masks of tiers refer to these."""
        return self.requests if self.touches is None else self.touches.locality

    def turns(self, processes: int) -> list[NDArray[np.bool_]]:
        """Return the mask of each reader. Requests are assigned to readers at random, as for competitors."""
        turns = self.requests.turns(processes)
        return turns if self.touches is None else [self.touches.spread(is_own) for is_own in turns]

    def requests_in(self, mask: ReadMask) -> ReadMask:
        """Return the requests of which any read is in a mask."""
        return mask if self.touches is None else _requests_in(self.touches, mask)

    def reads_of(self, requests: ReadMask) -> ReadMask:
        """Return all reads of the requests in a mask."""
        if self.touches is None:
            return requests
        return ReadMask(self.touches.spread(requests.first), self.touches.spread(requests.again))

    def further_gets(self, missed: ReadMask, repeats: Fraction) -> Fraction:
        """Return the mean GETs per repetition for missed reads, beyond one for each request."""
        if self.touches is None:
            return Fraction(0)
        gets = mean(self.touches.gets(missed.first), self.touches.gets(missed.again), repeats)
        return (gets - self.requests_in(missed).count(repeats)) / self.requests.rate


@lru_cache(maxsize=8)
def _requests_in(touches: Touches, mask: ReadMask) -> ReadMask:
    return ReadMask(touches.requests(mask.first), touches.requests(mask.again))
