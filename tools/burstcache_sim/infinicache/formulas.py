"""Formulas 1 to 6 under the paper's configuration, next to the paper's values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from burstcache.core.pool.availability import chunks_lost, loss_approximation, slice_lost
from burstcache.core.pool.costs import PoolHour
from burstcache_sim.bill.infinicache import infinicache_hour
from burstcache_sim.infinicache import published
from burstcache_sim.pool.reclaims import reclaim_process
from burstcache_sim.report.table import Table
from burstcache_terminal.text import number_text

_RECLAIMED = 12  # members reclaimed simultaneously in the paper's example
_LARGE_MS = 200  # billed duration per chunk of more than 1 MB


def formulas_table() -> Table:
    """Return a table of availability and cost according to the formulas."""
    pool = published.PAPER
    members, chunks, parity = pool.functions, pool.chunks, pool.parity_chunks
    three, four = (chunks_lost(i, members=members, reclaimed=_RECLAIMED, chunks=chunks) for i in (3, 4))
    whole = slice_lost(members=members, reclaimed=_RECLAIMED, chunks=chunks, parity=parity)
    rows = [
        _row("p3 / p4 with 12 of 400 reclaimed", three / four, 18.8),
        _row("P(r) / p3 with 12 of 400 reclaimed", whole / three, 1.05),
    ]
    for names, lost_pct, of_hour_pct in ((published.LOW, 0.0039, 99.76), (published.HIGH, 0.11, 93.36)):
        for name in names:
            lost = loss_approximation(reclaim_process(name, members).minute, chunks=chunks, parity=parity)
            rows.append(_row(f"lost in a minute, {name} [%]", 100 * lost, lost_pct))
            rows.append(_row(f"available for an hour, {name} [%]", 100 * (1 - lost) ** 60, of_hour_pct))
    large = hour(Fraction(published.LARGE_GETS_PER_H), serve_ms=_LARGE_MS)
    alone = hour(Fraction(published.LARGE_GETS_PER_H), serve_ms=_LARGE_MS, has_backup=False)
    elasticache_usd = float(published.ELASTICACHE_USD_PER_H) * published.HOURS
    of_large, of_alone = (published.HOURS * float(one.usd) for one in (large, alone))
    rows += [
        _row("warm-up, C_w [USD/h]", float(large.warm_up_usd), published.WARM_UP_USD_PER_H),
        _row("ElastiCache, 50 h [USD]", elasticache_usd, published.ELASTICACHE_USD),
        _row("large objects, 50 h [USD]", of_large, published.SETTINGS[1].usd),
        _row("large objects, no backup, 50 h [USD]", of_alone, published.SETTINGS[2].usd),
        _row("ElastiCache / large objects", elasticache_usd / of_large, 31.0),
        _row("ElastiCache / large objects, no backup", elasticache_usd / of_alone, 96.0),
        _row("overtakes ElastiCache [GETs/h]", overtakes_gets_per_h(), published.OVERTAKES_GETS_PER_H),
    ]
    note = (
        "t_bak = 1.85 s is fitted to the difference between figure 13's bills with and without backup. Chunks of large "
        "objects are billed 200 ms, those of figure 17 100 ms."
    )
    return Table("Formulas 1 to 6", ("quantity", "ours", "published", "ratio"), tuple(rows), note)


def hour(gets_per_h: Fraction, *, serve_ms: int = 100, billed_in_ms: int = 100, has_backup: bool = True) -> PoolHour:
    """Return the bill for an hour with the paper's configuration and prices."""
    return infinicache_hour(
        replace(published.PAPER, serve_ms=serve_ms, billed_in_ms=billed_in_ms),
        gets_per_h,
        request_usd=published.REQUEST_USD,
        gb_s_usd=published.GB_S_USD,
        has_backup=has_backup,
    )


def overtakes_gets_per_h() -> float:
    """Return the GET rate at which InfiniCache costs as much as ElastiCache [1/h], as in figure 17."""
    keeping, one = hour(Fraction(0)).usd, hour(Fraction(1)).serving_usd
    return float((published.ELASTICACHE_USD_PER_H - keeping) / one)


def _row(quantity: str, ours: float, printed: float) -> tuple[str, ...]:
    return quantity, number_text(ours), number_text(printed), f"{ours / printed:.3f}"
