"""How well caches of any size serve a trace, once and when it comes again.

An always-on cache is still warm when a trace is repeated: only the first of a month's repetitions starts empty. What
misses cost is therefore a mean over the month. Renewed objects (`bill.renewal`) have another name in each repetition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.bill.demand import sample_rate
from burstcache_sim.traces.trace import exact_sum
from burstcache_sim.world.scenario import homes_of, numbered_keys

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.traces.trace import Trace

_MOST_BYTES = 2**58  # of all objects, 288 petabytes: sums over two repetitions, with what entries take, fit 64 bits


EVERYTHING_BYTES = 2**60  # of memory: nothing is ever dropped


@dataclass(frozen=True, slots=True)
class HitCurve:
    """How many requests an LRU cache answers, by its memory; exact for constant sizes (`engine.stack_distance`)."""

    requests: int
    within_bytes: NDArray[np.int64]  # sorted distances of requests that are not the first for their object
    again_bytes: NDArray[np.int64]  # sorted distances of the first ones when the trace comes again

    def misses(self, memory_bytes: int) -> tuple[int, int]:
        """Return the misses of the first repetition, and those of each further one."""
        import numpy as np

        first = self.requests - int(np.searchsorted(self.within_bytes, memory_bytes, side="right"))
        return first, first - int(np.searchsorted(self.again_bytes, memory_bytes, side="right"))


@dataclass(frozen=True, slots=True, eq=False)
class Locality:
    """A trace as caches see it: which object when, and its size. An object is as large as its largest answer."""

    times_us: NDArray[np.int64]  # since the first request
    ids: NDArray[np.int64]  # from 0, without gaps
    sizes_bytes: NDArray[np.int64]  # by id
    period_us: int  # how often the trace comes: once in this
    rate: Fraction = Fraction(1)  # share of the log's keys that these are; what is returned is of the whole log
    numbers: NDArray[np.int64] | None = None  # each object's id in the whole log; None: the same
    renewed: NDArray[np.bool_] | None = None  # by id: whether it has another name in each repetition; None: no object
    whole_bytes: NDArray[np.int64] | None = None  # of the object that each is a range of, by id; None: the sizes
    _curves: dict[tuple[int, int], HitCurve] = field(default_factory=dict, repr=False, compare=False)

    @property
    def requests(self) -> Fraction:
        """How many requests they are; of a sample an estimate."""
        return len(self.ids) / self.rate

    @property
    def objects(self) -> Fraction:
        """How many objects there are."""
        return len(self.sizes_bytes) / self.rate

    @property
    def new_objects(self) -> Fraction:
        """How many of them each repetition shows for the first time."""
        return Fraction(int(self.is_renewed.sum())) / self.rate

    @property
    def stored_bytes(self) -> int:
        """The size of all objects together [bytes]."""
        return round(exact_sum(self.sizes_bytes) / self.rate)

    @property
    def objects_bytes(self) -> NDArray[np.int64]:
        """The size of each object, by id; of a range that of the object it belongs to [bytes]."""
        return self.sizes_bytes if self.whole_bytes is None else self.whole_bytes

    @property
    def working_bytes(self) -> int:
        """The memory with which an LRU cache misses nothing but new objects: all of two repetitions [bytes]."""
        return round(int(self.sizes_bytes.sum() + self.sizes_bytes[self.is_renewed].sum()) / self.rate)

    @property
    def is_renewed(self) -> NDArray[np.bool_]:
        """Whether each object has another name in each repetition, by id."""
        import numpy as np

        return np.zeros(len(self.sizes_bytes), np.bool_) if self.renewed is None else self.renewed

    def kept_bytes(self, repeats: Fraction) -> tuple[Fraction, Fraction]:
        """Return the bytes that a store holds that drops nothing, and those written to it: means of a repetition.

        Args:
            repeats: How often the trace comes.
        """
        every, new = (Fraction(int(self.sizes_bytes[kept].sum())) for kept in (slice(None), self.is_renewed))
        repeats = max(Fraction(repeats), Fraction(1))
        return (every + new * (repeats - 1) / 2) / self.rate, mean(every, new, repeats) / self.rate

    def twice(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of two repetitions in a row, renewed objects with ids of their own, and each id's object."""
        import numpy as np

        count, is_renewed = len(self.sizes_bytes), self.is_renewed
        again = np.where(is_renewed, count + np.cumsum(is_renewed) - 1, np.arange(count))
        return np.concatenate((self.ids, again[self.ids])), np.concatenate(
            (np.arange(count), np.flatnonzero(is_renewed))
        )

    def misses(
        self, memory_bytes: int, *, repeats: Fraction, largest_bytes: int | None = None, nodes: int = 1
    ) -> Fraction:
        """Return the mean misses of a repetition under LRU.

        A sample of the keys is simulated with its share of the memory (SHARDS).

        Args:
            memory_bytes: The memory for objects, of each node [bytes]. Larger objects pass it by.
            repeats: How often the trace comes while the cache stays warm.
            largest_bytes: The largest object that the cache accepts; None for no limit but its memory [bytes].
            nodes: How many caches share the objects, each with those whose home it is.
        """
        limit = memory_bytes if largest_bytes is None else min(memory_bytes, largest_bytes)
        fitting = int((self.sizes_bytes <= limit).sum())
        if (fitting, nodes) not in self._curves:
            self._curves[fitting, nodes] = self._curve(limit, nodes)
        first, again = self._curves[fitting, nodes].misses(int(memory_bytes * self.rate))
        return mean(first, again, repeats) / self.rate

    def of_nodes(self, nodes: int) -> list[Locality]:
        """Return what each of several nodes is asked for; a node without a request is left out."""
        if nodes == 1:
            return [self]
        home = self.homes(nodes)[self.ids]
        return [self.part(home == node) for node in range(nodes) if (home == node).any()]

    def homes(self, nodes: int) -> NDArray[np.int64]:
        """Return each object's node, by id, from 0: where the simulator places an object of its number."""
        import numpy as np

        if nodes == 1:
            return np.zeros(len(self.sizes_bytes), np.int64)
        numbers = np.arange(len(self.sizes_bytes)) if self.numbers is None else self.numbers
        return _homes(1 << (int(numbers.max(initial=0))).bit_length(), nodes)[numbers]

    def of_readers(self, processes: int) -> list[Locality]:
        """Return what each of several readers asks for, who take turns at random, the same at every call."""
        return [self] if processes == 1 else [self.part(is_ours) for is_ours in self.turns(processes)]

    def turns(self, processes: int) -> list[NDArray[np.bool_]]:
        """Return which requests each of several readers has; a reader without any is left out."""
        import numpy as np

        reader = np.random.default_rng(processes).integers(processes, size=len(self.ids))
        return [reader == one for one in range(processes) if (reader == one).any()]

    def part(self, is_kept: NDArray[np.bool_]) -> Locality:
        """Return some of the requests, by a flag each."""
        return _dense(replace(self, times_us=self.times_us[is_kept], ids=self.ids[is_kept], _curves={}))

    def _curve(self, limit_bytes: int, nodes: int) -> HitCurve:
        import numpy as np

        from burstcache_sim.engine.stack_distance import stack_distances

        is_small = (self.sizes_bytes <= limit_bytes)[self.ids]
        kept = self if is_small.all() else self.part(is_small)
        found = [stack_distances(one.ids, one.sizes_bytes, one.is_renewed) for one in kept.of_nodes(nodes)]
        nothing = np.zeros(0, np.int64)
        within_bytes = np.concatenate([nothing, *(distances[distances >= 0] for distances, _ in found)])
        again_bytes = np.concatenate([nothing, *(again[again >= 0] for _, again in found)])
        return HitCurve(len(self.ids), np.sort(within_bytes), np.sort(again_bytes))


def locality_of(trace: Trace, *, object_bytes: int, period_us: int) -> Locality:
    """Return a trace as caches see it.

    Args:
        trace: Requests, at least one.
        object_bytes: Size of an object whose size is not known [bytes].
        period_us: How often the trace comes: once in this [us].

    Raises:
        InvalidSettingError: The objects are too large together for 64-bit sums.
    """
    import numpy as np

    ids = np.zeros(len(trace), np.int64) if trace.key_ids is None else trace.key_ids.astype(np.int64)
    sizes_bytes = np.full(int(ids.max()) + 1, object_bytes, np.int64)
    if trace.sizes_bytes is not None:
        sizes_bytes = trace.largest_bytes(trace.sizes_bytes)
    whole_bytes = None if trace.object_bytes is None else trace.largest_bytes(trace.object_bytes)
    if (together_bytes := exact_sum(sizes_bytes)) > _MOST_BYTES:
        raise InvalidSettingError(f"objects of {together_bytes} bytes together: expected at most {_MOST_BYTES}")
    times_us = trace.arrivals_us - trace.arrivals_us[0]
    found = Locality(times_us, ids, sizes_bytes, period_us, sample_rate(trace), whole_bytes=whole_bytes)
    return replace(_dense(found), numbers=None)


def mean(first: Fraction | int, again: Fraction | int, repeats: Fraction) -> Fraction:
    """Return the mean of a count over repetitions of which only the first is different."""
    return first + (again - first) * (1 - 1 / max(Fraction(repeats), Fraction(1)))


def _dense(locality: Locality) -> Locality:
    """Return the same requests with ids from 0 without gaps; objects keep their numbers."""
    import numpy as np

    seen = np.bincount(locality.ids, minlength=len(locality.sizes_bytes)) > 0
    if seen.all():
        return locality
    dense = np.cumsum(seen) - 1
    return replace(
        locality,
        ids=dense[locality.ids].astype(np.int64),
        sizes_bytes=locality.sizes_bytes[seen],
        numbers=np.flatnonzero(seen) if locality.numbers is None else locality.numbers[seen],
        renewed=None if locality.renewed is None else locality.renewed[seen],
        whole_bytes=None if locality.whole_bytes is None else locality.whole_bytes[seen],
    )


@lru_cache(maxsize=16)
def _homes(count: int, nodes: int) -> NDArray[np.int64]:
    """Return the nodes of objects of all numbers below a count."""
    return homes_of(numbered_keys(count), nodes)
