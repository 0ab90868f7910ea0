"""Reassessment of the verdict under other assumptions: another number of readers, or other ranges.

Only what depends on the assumption is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from burstcache.core.slices import SLICE_BYTES
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.bill.static_tiers import MAX_WHOLE_BYTES
from burstcache_sim.bill.touches import touches_of
from burstcache_sim.choose.advise.configurations import Choice, recompute
from burstcache_sim.choose.advise.systems import System, Weighing, competitors, for_sale
from burstcache_sim.choose.advise.worth import Span
from burstcache_sim.choose.tune.workload import workload_of
from burstcache_sim.traces.tiling import tiled

_PROCESSES = (1, 2, 5, 10, 20, 50, 100, 200)
_MOST_REQUESTS = 500_000  # of the log; the search takes some seconds for as many
FEW_RANGES = 0.01  # share of requests below which ranges without an offset cannot change the verdict


@dataclass(frozen=True, slots=True)
class Reassessment:
    """The systems of an answer, computed anew for other numbers of readers."""

    weighing: Weighing
    choices: Sequence[Choice]  # of Burstcache
    ours: Choice  # the best of them
    others: Sequence[System]
    without: Sequence[str]

    @property
    def is_possible(self) -> bool:
        """Whether the number of readers matters, and the log is short enough for a search, with few enough slices."""
        workload = self.weighing.workload
        has_memory = self.weighing.has_memory and workload.setup.readers == "aws"
        if not has_memory or len(workload.trace) > _MOST_REQUESTS:
            return False
        touches = touches_of(self.weighing.locality, MAX_WHOLE_BYTES)
        return touches is None or touches.slice_bytes == SLICE_BYTES

    def systems_with(self, processes: int) -> list[System]:
        """Return the rivals and all deployments of Burstcache, for this number of reader processes."""
        workload = self.weighing.workload
        setup = replace(workload.setup, reader_processes=processes)
        weighing = replace(self.weighing, workload=replace(workload, setup=setup))
        names = tuple(one.name for one in self.others if _is_of_readers(one))
        rivals = competitors(weighing, without=self.without, names=("s3-only", *names))
        rivals += [one for one in self.others if not _is_of_readers(one) and one.name != "s3-only"]
        ours = [
            recompute(weighing, one) if one.setup.reader_memory_bytes else one
            for one in self.choices
            if one is self.ours or not (one.policy and one.setup.reader_memory_bytes)
        ]
        return [*for_sale(rivals), *(one.system for one in ours)]


def _is_of_readers(system: System) -> bool:
    return system.kind.partition("+")[0] in ("reader-memory", "reader-memory-confirmed", "range-memory")


def spans_by_processes(
    name_at: Callable[[int], str], kind_of: Callable[[str], str], processes: int
) -> tuple[Span, ...]:
    """Return the best buys around a number of reader processes, up to where the kind of system changes.

    Args:
        name_at: Function that returns the best buy's name for a number of processes.
        kind_of: Function that returns the kind of system, within which a change does not count.
        processes: Number of processes of the answer.

    Returns:
        One span around the number, and one before and after it if the kind changes within `_PROCESSES`.
    """
    names = {processes: name_at(processes)}

    def is_same(count: int) -> bool:
        names[count] = name_at(count)
        return kind_of(names[count]) == kind_of(names[processes])

    above = _change(is_same, processes, [count for count in _PROCESSES if count > processes])
    below = _change(is_same, processes, [count for count in reversed(_PROCESSES) if count < processes])
    here = Span(names[processes], 1 if below is None else below + 1, above)
    spans = [] if below is None else [Span(names[below], 1, below + 1)]
    return (*spans, here, *([] if above is None else [Span(names[above], above, None)]))


def _change(is_same: Callable[[int], bool], start: int, counts: Sequence[int]) -> int | None:
    """Return the number nearest to the start for which the answer is another, or None. The counts lead away from it."""
    last = start
    for count in counts:
        if is_same(count):
            last = count
            continue
        while abs(count - last) > 1:
            middle = (count + last) // 2
            last, count = (middle, count) if is_same(middle) else (last, middle)
        return count
    return None


def hits_bracket_pct(weighing: Weighing, winner: System, ours: Choice) -> tuple[float, float] | None:
    """Return the winner's hit ratios if ranges of equal length follow each other, and if they are the same range [%].

    None if few ranges lack an offset, if no cache wins, or if the winner is tuned to the log.
    """
    workload, trace = weighing.workload, weighing.workload.trace
    if trace.assumed_ranges < FEW_RANGES * len(trace) or winner.name == "s3-only":
        return None
    other = replace(
        workload_of(
            tiled(trace),
            workload.prices,
            workload.setup,
            period_us=workload.demand.period_us,
            only_cache=workload.only_cache,
            capacity_bytes=workload.capacity_bytes,
        ),
        same_objects=workload.same_objects,
    )
    weighing = replace(weighing, workload=other)
    if winner.name == OURS:
        return None if ours.tried else (recompute(weighing, ours).system.in_memory_pct, winner.in_memory_pct)
    found = competitors(weighing, names=("s3-only", winner.name))
    tiled_pct = next(system.in_memory_pct for system in found if system.name == winner.name)
    return tiled_pct, winner.in_memory_pct
