"""What is the best buy for each load and value of a hit, with Burstcache as `burstcache advise` would deploy it.

A saved wait is worth its part of S3's 25 ms: what answers in 5 ms saves four fifths of it. What a buyer pays is the
bill and the waits that remain, at that value; who pays least, wins. Less than a tenth and half a dollar is a tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.configurations import judged, standing
from burstcache_sim.choose.advise.systems import System, Weighing, choices, competitors
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.map.loads import DAY_US, OBJECT_BYTES, Load, trace_of
from burstcache_sim.choose.tune.workload import workload_of
from burstcache_sim.policies.registry import SIMULATED

Outcome = Literal["wins", "ties", "loses"]
WORKING_SETS_GB = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DUTIES = (0.001, 0.01, 0.1, 1.0)
PER_S = (1.0, 10.0, 100.0)
VALUES_USD_PER_MILLION = (0.0, 1.0, 10.0, 100.0)
READERS, MEMORY_MB = 4, 256  # who read, and what each keeps in its own memory, for Burstcache or without it
_TIMES, _MORE_USD = 1.1, 0.5
_JUDGE = "breakeven"
_MEMORIES = ("reader-memory", "reader-memory-confirmed")


@dataclass(frozen=True, slots=True)
class Buy:
    """The best of some systems: its name, what it consists of, and what it costs with the waits that remain [USD]."""

    name: str
    note: str
    bill_usd: float
    usd: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One load at one value of a hit."""

    load: Load
    usd_per_million: float
    ours: Buy
    coherent: Buy  # the best of S3 and what confirms its answers with S3
    any_age: Buy  # the best of all rivals

    def outcome(self, rival: Buy) -> Outcome:
        """Return how Burstcache does against a rival."""
        if rival.usd > _TIMES * self.ours.usd + _MORE_USD:
            return "wins"
        return "loses" if self.ours.usd > _TIMES * rival.usd + _MORE_USD else "ties"


def cells(prices: PriceSheet, loads: Sequence[Load], values: Sequence[float]) -> Iterator[Cell]:
    """Yield the cells of a map, load by load.

    Args:
        prices: Prices of the region.
        loads: What is asked for.
        values: What a million saved waits are worth [USD].
    """
    setup = Setup(relay="direct", nodes=0, reader_processes=READERS)
    for load in loads:
        # A load is a draw from a fixed set of objects: what one half lacks is chance, no object is new.
        workload = replace(workload_of(trace_of(load), prices, setup, period_us=DAY_US), same_objects=True)
        for usd_per_million in values:
            clock = Clock().of_log(workload.trace, object_bytes=OBJECT_BYTES, front_door=setup.front_door)
            value = Value(usd_per_ms=usd_per_million / 1e6 / clock.s3_ms)
            yield _cell(load, usd_per_million, Weighing(workload, clock, value, memory_mb=(MEMORY_MB,)))


def all_loads() -> list[Load]:
    """Return the loads of the whole map."""
    return [Load(gb, duty, per_s) for per_s in PER_S for duty in DUTIES for gb in WORKING_SETS_GB]


def _cell(load: Load, usd_per_million: float, weighing: Weighing) -> Cell:
    still = standing(weighing)
    ours = [*still, *judged(weighing, [SIMULATED[_JUDGE]], still)]
    other_sizes = [f"{kind}:{mb}MB" for kind in _MEMORIES for mb in (64, 1024, 4096)]
    rivals = choices(competitors(weighing, without=other_sizes))
    coherent = [rival for rival in rivals if rival.freshness != "any age"]
    requests = weighing.requests
    waits_usd = weighing.s3_usd + requests * usd_per_million / 1e6

    def best(systems: Sequence[System]) -> Buy:
        system = max(systems, key=lambda one: (one.gain.net_usd(weighing.value), -one.usd_per_month))
        usd = waits_usd - system.gain.net_usd(weighing.value)
        return Buy(system.name, system.note if system.name == OURS else "", system.usd_per_month, usd)

    return Cell(load, usd_per_million, best([choice.system for choice in ours]), best(coherent), best(rivals))
