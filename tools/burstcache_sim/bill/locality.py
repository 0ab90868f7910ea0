"""Locality of a trace: the misses of an LRU cache of any size, in one pass and over repetitions of the trace.

An always-on cache stays warm between repetitions, so only a month's first repetition starts empty. Misses are
therefore means over a month. Renewed objects (`bill.renewal`) have a new name in each repetition.
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

    from burstcache_sim.bill.cache_losses import CacheLosses
    from burstcache_sim.traces.trace import Trace

_MAX_TOTAL_BYTES = 2**58  # of all objects (288 petabytes), so that sums over two repetitions with overheads fit 64 bits


EVERYTHING_BYTES = 2**60  # a cache of this size never evicts


@dataclass(frozen=True, slots=True)
class HitCurve:
    """Hits of an LRU cache as a function of its memory, exact for constant object sizes (`engine.stack_distance`)."""

    requests: int
    within_bytes: NDArray[np.int64]  # sorted stack distances, without each object's first request
    again_bytes: NDArray[np.int64]  # sorted stack distances of first requests when the trace repeats

    def misses(self, memory_bytes: int) -> tuple[int, int]:
        """Return the misses of the first repetition and of each further repetition."""
        import numpy as np

        first = self.requests - int(np.searchsorted(self.within_bytes, memory_bytes, side="right"))
        return first, first - int(np.searchsorted(self.again_bytes, memory_bytes, side="right"))


@dataclass(frozen=True, slots=True, eq=False)
class Locality:
    """The requests of a trace as seen by caches. An object has the size of its largest response."""

    times_us: NDArray[np.int64]  # arrival times since the first request
    ids: NDArray[np.int64]  # object of each request, from 0 without gaps
    sizes_bytes: NDArray[np.int64]  # size of each object, by id
    period_us: int  # time from one repetition of the trace to the next
    rate: Fraction = Fraction(1)  # share of the log's keys in a sample (results are scaled to the whole log)
    numbers: NDArray[np.int64] | None = None  # each object's id in the whole log (None for the whole log)
    renewed: NDArray[np.bool_] | None = None  # by id: whether the object is renewed (None if no object is)
    whole_bytes: NDArray[np.int64] | None = None  # by id: size of a range's whole object (None: `sizes_bytes`)
    object_ids: NDArray[np.int64] | None = None  # by id: number of a range's object (None: each id is an object)
    starts_bytes: NDArray[np.int64] | None = None  # by id: offset of a range, -1 if unknown (None: no ranges)
    _curves: dict[tuple[int, int, CacheLosses | None], HitCurve] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def requests(self) -> Fraction:
        """The number of requests, estimated for a sample."""
        return len(self.ids) / self.rate

    @property
    def objects(self) -> Fraction:
        """The number of objects, estimated for a sample."""
        return len(self.sizes_bytes) / self.rate

    @property
    def new_objects(self) -> Fraction:
        """The number of objects that are new in each repetition."""
        return Fraction(int(self.is_renewed.sum())) / self.rate

    @property
    def stored_bytes(self) -> int:
        """The total size of all objects [bytes]."""
        return round(exact_sum(self.sizes_bytes) / self.rate)

    @property
    def objects_bytes(self) -> NDArray[np.int64]:
        """The size of each object by id. For a range, this is the size of its whole object [bytes]."""
        return self.sizes_bytes if self.whole_bytes is None else self.whole_bytes

    @property
    def working_bytes(self) -> int:
        """The memory for all objects of two repetitions, with which an LRU cache misses only new objects [bytes]."""
        return round(int(self.sizes_bytes.sum() + self.sizes_bytes[self.is_renewed].sum()) / self.rate)

    @property
    def is_renewed(self) -> NDArray[np.bool_]:
        """Whether each object has a new name in each repetition, by id."""
        import numpy as np

        return np.zeros(len(self.sizes_bytes), np.bool_) if self.renewed is None else self.renewed

    def kept_bytes(self, repeats: Fraction) -> tuple[Fraction, Fraction]:
        """Return the bytes stored in and written to a cache that never evicts, as means per repetition.

        Args:
            repeats: Number of repetitions.
        """
        every, new = (Fraction(int(self.sizes_bytes[mask].sum())) for mask in (slice(None), self.is_renewed))
        repeats = max(Fraction(repeats), Fraction(1))
        return (every + new * (repeats - 1) / 2) / self.rate, mean(every, new, repeats) / self.rate

    def twice(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the request ids of two repetitions, with new ids for renewed objects, and the object of each id."""
        import numpy as np

        count, is_renewed = len(self.sizes_bytes), self.is_renewed
        again = np.where(is_renewed, count + np.cumsum(is_renewed) - 1, np.arange(count))
        return np.concatenate((self.ids, again[self.ids])), np.concatenate(
            (np.arange(count), np.flatnonzero(is_renewed))
        )

    @property
    def times_twice_us(self) -> NDArray[np.int64]:
        """The arrival times of two repetitions [us]."""
        import numpy as np

        return np.concatenate((self.times_us, self.times_us + self.period_us))

    def misses(
        self,
        memory_bytes: int,
        *,
        repeats: Fraction,
        largest_bytes: int | None = None,
        nodes: int = 1,
        losses: CacheLosses | None = None,
    ) -> Fraction:
        """Return the mean misses per repetition under LRU.

        For a sample of the keys, the memory is scaled down by the sampling rate (SHARDS).

        Args:
            memory_bytes: Memory of each node for objects [bytes]. Larger objects bypass the node.
            repeats: Number of repetitions. The cache stays warm between repetitions.
            largest_bytes: The largest object that the cache accepts [bytes]. If None, up to its memory.
            nodes: Number of nodes that shard the objects. Each object has one home node.
            losses: Interruptions of the nodes.
        """
        limit = memory_bytes if largest_bytes is None else min(memory_bytes, largest_bytes)
        fitting = int((self.sizes_bytes <= limit).sum())
        of = fitting, nodes, losses
        if of not in self._curves:
            self._curves[of] = self._curve(limit, nodes, losses)
        first, again = self._curves[of].misses(int(memory_bytes * self.rate))
        return mean(first, again, repeats) / self.rate

    def of_nodes(self, nodes: int) -> list[Locality]:
        """Split the requests by home node. Nodes without requests are left out."""
        if nodes == 1:
            return [self]
        home = self.homes(nodes)[self.ids]
        return [self.part(home == node) for node in range(nodes) if (home == node).any()]

    def homes(self, nodes: int) -> NDArray[np.int64]:
        """Return each object's home node in the simulator, by object id. Nodes are numbered from 0."""
        import numpy as np

        if nodes == 1:
            return np.zeros(len(self.sizes_bytes), np.int64)
        numbers = np.arange(len(self.sizes_bytes)) if self.numbers is None else self.numbers
        return _homes(1 << (int(numbers.max(initial=0))).bit_length(), nodes)[numbers]

    def of_readers(self, processes: int) -> list[Locality]:
        """Split the requests between several readers at random, with a fixed seed."""
        return [self] if processes == 1 else [self.part(is_own) for is_own in self.turns(processes)]

    def turns(self, processes: int) -> list[NDArray[np.bool_]]:
        """Return the request mask of each reader. Readers without requests are left out."""
        import numpy as np

        reader = np.random.default_rng(processes).integers(processes, size=len(self.ids))
        return [reader == number for number in range(processes) if (reader == number).any()]

    def part(self, is_kept: NDArray[np.bool_]) -> Locality:
        """Return the requests selected by a mask."""
        return _dense(replace(self, times_us=self.times_us[is_kept], ids=self.ids[is_kept], _curves={}))

    def _curve(self, limit_bytes: int, nodes: int, losses: CacheLosses | None) -> HitCurve:
        import numpy as np

        is_small = (self.sizes_bytes <= limit_bytes)[self.ids]
        kept = self if is_small.all() else self.part(is_small)
        by_node = [one.distances(losses) for one in kept.of_nodes(nodes)]
        nothing = np.zeros(0, np.int64)
        within_bytes = np.concatenate([nothing, *(distances[distances >= 0] for distances, _ in by_node)])
        again_bytes = np.concatenate([nothing, *(again[again >= 0] for _, again in by_node)])
        return HitCurve(len(self.ids), np.sort(within_bytes), np.sort(again_bytes))

    def distances(self, losses: CacheLosses | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the stack distances on one node (`engine.stack_distance`). Lost reads have none."""
        import numpy as np

        from burstcache_sim.engine.stack_distance import NEVER, stack_distances

        distances, again = stack_distances(self.ids, self.sizes_bytes, self.is_renewed)
        if losses is not None:
            lost, lost_again = np.split(
                losses.lost(self.twice()[0], self.times_twice_us, np.ones(2 * len(self.ids), np.bool_)), 2
            )
            again[lost_again[distances == NEVER]] = NEVER
            distances[lost] = NEVER
        return distances, again


def locality_of(trace: Trace, *, object_bytes: int, period_us: int) -> Locality:
    """Return the locality of a trace.

    Args:
        trace: Requests, at least one.
        object_bytes: Size of an object of unknown size [bytes].
        period_us: Time from one repetition of the trace to the next [us].

    Raises:
        InvalidSettingError: The total size of the objects is too large for 64-bit sums.
    """
    import numpy as np

    ids = np.zeros(len(trace), np.int64) if trace.key_ids is None else trace.key_ids.astype(np.int64)
    sizes_bytes = np.full(int(ids.max()) + 1, object_bytes, np.int64)
    if trace.sizes_bytes is not None:
        sizes_bytes = trace.largest_bytes(trace.sizes_bytes)
    whole_bytes = None if trace.object_bytes is None else trace.largest_bytes(trace.object_bytes)
    if (total_bytes := exact_sum(sizes_bytes)) > _MAX_TOTAL_BYTES:
        raise InvalidSettingError(f"objects of {total_bytes} bytes in total: expected at most {_MAX_TOTAL_BYTES}")
    times_us = trace.arrivals_us - trace.arrivals_us[0]
    object_ids, starts_bytes = trace.range_places(len(sizes_bytes)) if trace.objects else (None, None)
    locality = Locality(
        times_us,
        ids,
        sizes_bytes,
        period_us,
        sample_rate(trace),
        whole_bytes=whole_bytes,
        object_ids=object_ids,
        starts_bytes=starts_bytes,
    )
    return replace(_dense(locality), numbers=None)


def mean(first: Fraction | int, again: Fraction | int, repeats: Fraction) -> Fraction:
    """Return the mean of a count over repetitions when only the first repetition differs."""
    return first + (again - first) * (1 - 1 / max(Fraction(repeats), Fraction(1)))


def _dense(locality: Locality) -> Locality:
    """Renumber objects from 0 without gaps. Their `numbers` do not change."""
    import numpy as np

    is_used = np.bincount(locality.ids, minlength=len(locality.sizes_bytes)) > 0
    if is_used.all():
        return locality
    dense = np.cumsum(is_used) - 1
    return replace(
        locality,
        ids=dense[locality.ids].astype(np.int64),
        sizes_bytes=locality.sizes_bytes[is_used],
        numbers=np.flatnonzero(is_used) if locality.numbers is None else locality.numbers[is_used],
        renewed=None if locality.renewed is None else locality.renewed[is_used],
        whole_bytes=None if locality.whole_bytes is None else locality.whole_bytes[is_used],
        object_ids=None if locality.object_ids is None else locality.object_ids[is_used],
        starts_bytes=None if locality.starts_bytes is None else locality.starts_bytes[is_used],
    )


@lru_cache(maxsize=16)
def _homes(count: int, nodes: int) -> NDArray[np.int64]:
    """Return the home node of every object number below a count."""
    return homes_of(numbered_keys(count), nodes)
