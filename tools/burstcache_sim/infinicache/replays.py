"""Replays of InfiniCache's production workload in its three settings, next to the paper's results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.pool.costs import MemberPrice
from burstcache.core.pool.slices import Redundancy
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.infinicache import published
from burstcache_sim.infinicache.published import Setting
from burstcache_sim.pool.reclaims import reclaim_process
from burstcache_sim.pool.scenario import Counts, PoolRun, PoolScenario
from burstcache_sim.pool.world import simulate_pool
from burstcache_sim.report.table import Table
from burstcache_sim.units import US_PER_H
from burstcache_terminal.text import number_text

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

_WARM_UP_MS, _SERVE_MS = 5, 13  # "a few ms"; about 13 ms in addition to the transfer
_BACKUP_MS = 600  # in each of the two environments; with the transfer of new data, the bill matches figure 13
_BYTES_PER_MS = 75_000  # bandwidth of a function with 1.5 GB


@dataclass(frozen=True, slots=True)
class Replay:
    """The replay of one setting under one reclaim distribution."""

    setting: Setting
    reclaims: str
    run: PoolRun
    elasticache_hit_pct: float

    @property
    def usd(self) -> float:
        """The members' cost over all hours [USD]."""
        return sum(map(sum, map(hour_usd, self.run.hours)))

    @property
    def availability_pct(self) -> float:
        """Availability as in the paper: one minus the number of lost objects per found object [%]."""
        total = self.run.total
        return 100 * (1 - total.losses / max(1, total.hits))


def replay(setting: Setting, trace: Trace, reclaims: str) -> Replay:
    """Simulate a setting."""
    pool = published.PAPER
    scenario = PoolScenario(
        members=pool.functions,
        memory_mb=int(pool.memory_gb * 1024),
        redundancy=Redundancy(pool.data_chunks, pool.parity_chunks),
        warm_s=60 * pool.warm_up_every_min,
        backup_s=setting.backup_s,
        reclaims=reclaim_process(reclaims, pool.functions),
        pays_within_s=None,
        whole_objects=True,
        keep_s=published.HOURS * 3_600,
        billed_in_ms=pool.billed_in_ms,
        serve_ms=_SERVE_MS,
        warm_up_ms=_WARM_UP_MS,
        backup_ms=_BACKUP_MS,
        bytes_per_ms=_BYTES_PER_MS,
    )
    locality = locality_of(trace, object_bytes=1, period_us=published.HOURS * US_PER_H)
    misses = locality.misses(published.ELASTICACHE_BYTES, repeats=Fraction(1))
    elasticache_pct = 100 * (1 - float(misses) / len(trace))
    return Replay(setting, reclaims, simulate_pool(trace, scenario, object_bytes=1), elasticache_pct)


def hour_usd(counts: Counts) -> tuple[float, float, float]:
    """Return the hourly costs of serving, warm-up and backup at the paper's prices [USD]."""
    price = MemberPrice(published.PAPER.memory_gb, published.REQUEST_USD, published.GB_S_USD)

    def usd(invocations: int, duration_ms: float) -> float:
        gb_s = float(price.memory_gb) * duration_ms / 1000
        return invocations * float(price.request_usd) + gb_s * float(price.gb_s_usd)

    return (
        usd(counts.serve_invocations, counts.serve_ms),
        usd(counts.warm_ups, counts.warm_up_ms),
        usd(counts.backups, counts.backup_ms),
    )


def replays_table(replays: Sequence[Replay]) -> Table:
    """Return simulated and published results, one row per quantity."""
    rows: list[tuple[str, ...]] = []
    for one in replays:
        setting, total = one.setting, one.run.total
        quantities: list[tuple[str, float, float | None]] = [
            ("50 h [USD]", one.usd, setting.usd),
            (
                "ElastiCache costs more [times]",
                published.ELASTICACHE_USD / one.usd,
                published.ELASTICACHE_USD / setting.usd,
            ),
            ("hits [%]", 100 * one.run.hit_share, setting.hit_pct),
            ("ElastiCache's hits [%]", one.elasticache_hit_pct, setting.elasticache_hit_pct),
            ("lost and fetched again", total.losses, setting.resets),
            ("availability [%]", one.availability_pct, setting.availability_pct),
        ]
        for quantity, ours, printed in quantities:
            cells = ("", "") if printed is None else (number_text(printed), f"{ours / printed:.3f}")
            rows.append((setting.name, one.reclaims, quantity, number_text(ours), *cells))
    header = ("setting", "reclaims a minute", "quantity", "ours", "published", "ratio")
    note = (
        "The trace is synthetic, with the statistics of table 1, as the original is not part of the paper. The paper "
        "does not state the reclaims of its 50 hours: the two distributions give the low end of its losses."
    )
    return Table("50 hours of Dallas, simulated", header, tuple(rows), note, words=3)
