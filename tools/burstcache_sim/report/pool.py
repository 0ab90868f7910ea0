"""The report on a pool run, as text and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from burstcache.core.pool.slices import Redundancy
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.cost import Bill
from burstcache_sim.bill.market import Quote
from burstcache_sim.pool.scenario import PoolRun
from burstcache_sim.report.bills import bill_lines, bill_table
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_terminal.text import WIDTH, duration_text, each_usd_text, footnotes, table_text, usd_text, wrapped_text


@dataclass(frozen=True, slots=True)
class Pooled:
    """A pool run with its bill, its competitors and the reasons for its redundancy."""

    run: PoolRun
    bill: Bill
    rivals: tuple[Quote, ...]
    reasons: tuple[str, ...] = ()

    @property
    def hours(self) -> Fraction:
        """The length of the run [h]."""
        return Fraction(max(self.run.period_us, 1), US_PER_H)

    @property
    def usd_per_gb_h(self) -> float:
        """The hourly cost of a usable GB, without reads [USD/h]."""
        return float(self.bill.fixed_usd_exact / self.hours) / (self.run.scenario.usable_bytes / BYTES_PER_GB)

    @property
    def usd_per_found(self) -> float:
        """The serving cost per slice hit [USD]."""
        serving = sum(line.usd for line in self.bill.lines if line.text.startswith("members, serving"))
        return serving / max(1, self.run.total.slice_hits)


def pool_fields(pooled: Pooled) -> dict[str, Any]:
    """Return a pool run for JSON."""
    run, scenario = pooled.run, pooled.run.scenario
    return {
        "members": scenario.members,
        "memory_mb": scenario.memory_mb,
        "code": code_text(scenario.redundancy),
        "warm_s": scenario.warm_s,
        "backup_s": scenario.backup_s,
        "reclaims": scenario.reclaims.text,
        "reasons": list(pooled.reasons),
        **asdict(run.total),
        "availability": run.availability,
        "period_s": run.period_us / 1e6,
        "stored_bytes": run.stored_bytes,
        "usd": pooled.bill.usd,
        "usd_per_gb_h": pooled.usd_per_gb_h,
        "usd_per_found": pooled.usd_per_found,
        "lines": bill_lines(pooled.bill),
        "rivals": [
            {"name": one.name, "usd": one.bill.usd, "in_memory_pct": one.in_memory_pct, "note": one.note}
            for one in pooled.rivals
        ],
    }


def pool_text(pooled: Pooled) -> str:
    """Return a pool run as terminal text: hits and losses, the bill, and competitors."""
    repeats = HOURS_PER_MONTH / pooled.hours
    month = pooled.bill.month(periods=repeats, repeats=repeats)
    parts = ["\n".join(_run_lines(pooled)), bill_table(pooled.bill, month), _rivals_text(pooled)]
    return "\n\n".join(parts)


def code_text(redundancy: Redundancy) -> str:
    """Return the numbers of data and parity chunks, such as `10+2`."""
    return f"{redundancy.data}+{redundancy.parity}"


def _run_lines(pooled: Pooled) -> list[str]:
    run, scenario, total = pooled.run, pooled.run.scenario, pooled.run.total
    backup = f"backup every {scenario.backup_s} s" if scenario.backup_s else "no backup"
    lines = [
        f"{scenario.members} members of {scenario.memory_mb:,} MB, {code_text(scenario.redundancy)} chunks, "
        f"warm-up every {scenario.warm_s} s, {backup}; reclaims a minute: {scenario.reclaims.text}.",
        f"{total.requests:,} requests in {duration_text(run.period_us / 1e6)}: {100 * run.hit_share:.2f} % of them "
        f"and {100 * total.hit_bytes / max(1, total.read_bytes):.2f} % of the bytes from the pool.",
        f"Availability of stored slices: {100 * run.availability:.2f} %; {total.reclaimed:,} members were reclaimed. "
        f"Slices: {total.slice_reads:,} read, {total.repaired_slices:,} repaired, {total.slice_losses:,} lost, "
        f"{total.slice_evictions:,} evicted.",
        f"A GB for an hour costs {each_usd_text(pooled.usd_per_gb_h)}, a slice found "
        f"{each_usd_text(pooled.usd_per_found)}.",
    ]
    return [*map(wrapped_text, lines), *(wrapped_text(f"- {reason}", indent="  ") for reason in pooled.reasons)]


def _rivals_text(pooled: Pooled) -> str:
    has_hub = any(line.text.startswith("hub") for line in pooled.bill.lines)
    note = f"its hub {'is billed' if has_hub else 'is in the reader'}"
    offers = [*pooled.rivals, Quote("pool", pooled.bill, 100 * pooled.run.hit_share, note)]
    offers.sort(key=lambda offer: offer.bill.usd)
    marks, notes = footnotes(offer.note for offer in offers)
    per_month = float(HOURS_PER_MONTH / pooled.hours)
    rows = [
        (
            f"{offer.name}{mark}",
            usd_text(offer.bill.usd),
            usd_text(offer.bill.usd * per_month),
            f"{offer.in_memory_pct:.2f}",
        )
        for offer, mark in zip(offers, marks, strict=True)
    ]
    header = ("system", "USD", "a month", "without S3 %")
    return "\n".join([table_text(header, rows, right=(1, 2, 3), most=WIDTH), *notes])
