"""The cells of a map: the best buy for each load and hit value, with the deployment that `advise` would choose.

The last column has large objects, read by ranges, which Burstcache keeps in slices.

A hit is worth the share of S3's 25 ms that it saves. An answer in 5 ms saves four fifths of a wait. A system's cost is
its bill plus the value of the remaining waits. The lowest cost wins. A lead below 10 % plus half a dollar is a tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from burstcache.core.node_kinds import NodeKind
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.configurations import scheduled_choices, static_choices
from burstcache_sim.choose.advise.systems import System, Weighing, competitors, for_sale
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.map.loads import DAY_US, OBJECT_BYTES, Load, trace_of
from burstcache_sim.choose.tune.workload import workload_of
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.world.interruptions import ASSUMED_PER_H, Interruptions

Outcome = Literal["wins", "ties", "loses"]
WORKING_SETS_GB = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
RANGED_GB = 10.0  # working set of the loads that read large objects by ranges
# Columns of the map: the working set, and whether objects are large and read by ranges.
COLUMNS = (*((gb, False) for gb in WORKING_SETS_GB), (RANGED_GB, True))
DUTIES = (0.001, 0.01, 0.1, 1.0)
PER_S = (1.0, 10.0, 100.0)
VALUES_USD_PER_MILLION = (0.0, 1.0, 10.0, 100.0)
READERS, MEMORY_MB = 4, 256  # number of readers and each reader's memory, the same for all systems
_TIMES, _MORE_USD = 1.1, 0.5
_POLICY = "breakeven"
_USUAL = Interruptions(ASSUMED_PER_H)
_MEMORIES = ("reader-memory", "reader-memory-confirmed", "range-memory")


@dataclass(frozen=True, slots=True)
class Buy:
    """The best buy among several systems, for a month."""

    name: str
    note: str  # Burstcache's parts (empty for rivals)
    bill_usd: float
    usd: float  # bill plus the value of the remaining waits


@dataclass(frozen=True, slots=True)
class Cell:
    """One load at one hit value."""

    load: Load
    usd_per_million: float
    ours: Buy
    coherent: Buy  # the best of S3 and the rivals that revalidate with S3
    any_rival: Buy  # the best of all rivals

    def outcome(self, rival: Buy) -> Outcome:
        """Return the outcome of Burstcache against a rival."""
        if rival.usd > _TIMES * self.ours.usd + _MORE_USD:
            return "wins"
        return "loses" if self.ours.usd > _TIMES * rival.usd + _MORE_USD else "ties"


def cells(
    prices: PriceSheet,
    loads: Sequence[Load],
    values: Sequence[float],
    node_kinds: tuple[NodeKind, ...] = ("ec2",),
    interruptions: Interruptions = _USUAL,
) -> Iterator[Cell]:
    """Yield the cells of a map, load by load.

    Args:
        prices: Prices of the region.
        loads: Loads of the map.
        values: Hit values, per million saved waits [USD].
        node_kinds: Kinds of Burstcache's own nodes.
        interruptions: Interruptions of nodes on Spot, Burstcache's and rivals'.
    """
    setup = Setup(relay="direct", nodes=0, reader_processes=READERS)
    setup = replace(setup, interruptions_per_h=interruptions.per_h, interruption_seed=interruptions.seed)
    for load in loads:
        # Loads are drawn from a fixed set of objects. An object absent from one half is absent by chance, not new.
        workload = replace(workload_of(trace_of(load), prices, setup, period_us=DAY_US), same_objects=True)
        for usd_per_million in values:
            clock = LatencyModel().for_log(workload.trace, object_bytes=OBJECT_BYTES, front_door=setup.front_door)
            value = Value(usd_per_ms=usd_per_million / 1e6 / clock.s3_ms)
            weighing = Weighing(workload, clock, value, node_kinds=node_kinds, memory_mb=(MEMORY_MB,))
            yield _cell(load, usd_per_million, weighing)


def all_loads() -> list[Load]:
    """Return the loads of the whole map."""
    return [Load(gb, duty, per_s, by_ranges) for per_s in PER_S for duty in DUTIES for gb, by_ranges in COLUMNS]


def _cell(load: Load, usd_per_million: float, weighing: Weighing) -> Cell:
    static = static_choices(weighing)
    ours = [*static, *scheduled_choices(weighing, [WORTH_POLICIES[_POLICY]], static)]
    other_sizes = [f"{kind}:{mb}MB" for kind in _MEMORIES for mb in (64, 1024, 4096)]
    rivals = for_sale(competitors(weighing, without=other_sizes))
    coherent = [rival for rival in rivals if rival.freshness != "unbounded"]
    requests = weighing.requests
    waits_usd = weighing.s3_usd + requests * usd_per_million / 1e6

    def best(systems: Sequence[System]) -> Buy:
        system = max(systems, key=lambda system: (system.gain.net_usd(weighing.value), -system.usd_per_month))
        usd = waits_usd - system.gain.net_usd(weighing.value)
        return Buy(system.name, system.note if system.name == OURS else "", system.usd_per_month, usd)

    return Cell(load, usd_per_million, best([choice.system for choice in ours]), best(coherent), best(rivals))
