"""What one could buy for a log, as `burstcache advise` weighs it: bill, hits, latency, and whether it can be bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.bill.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency, hourly_cost
from burstcache_sim.bill.comparison import HOURS_PER_MONTH
from burstcache_sim.bill.competitors import Offer, offer_names, offers
from burstcache_sim.bill.cost import Bill
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.usage import US_PER_H
from burstcache_sim.choose.advise.clock import Clock
from burstcache_sim.choose.advise.nodes import why_too_small
from burstcache_sim.choose.advise.worth import Yield
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.world.result import RunResult

OURS = "burstcache"
_NOT_FOR_SALE = {
    "perfect-automation": "a bound: it knows the log",
    "lambda-always": "lacks the relay it would need",
    "infinicache": "a research prototype",
}


@dataclass(frozen=True, slots=True)
class System:
    """One thing to buy, for a month of the log."""

    name: str
    bill: Bill  # of the log's period
    usd_per_month: float
    in_memory_pct: float
    mean_ms: float
    gain: Yield
    cost: HourlyCost  # billed by the hour, and by each time that the log comes
    cheaper_at: BurstFrequency | None  # how often the log may come so that Burstcache is cheaper
    why_not: str = ""  # reason it cannot be bought; empty if it can
    note: str = ""


def our_system(workload: Workload, result: RunResult, clock: Clock, s3_usd: float) -> System:
    """Return this system under a run.

    Args:
        workload: The log.
        result: What a policy made of it.
        clock: How long requests take.
        s3_usd: What S3 alone costs a month.
    """
    billed = workload.bill(result)
    usd = float(billed.usd_exact * workload.repeats_per_month)
    full_us = _full_hours(workload.demand).period_us
    return System(
        name=OURS,
        bill=billed,
        usd_per_month=usd,
        in_memory_pct=result.in_memory_pct,
        mean_ms=clock.with_burstcache(result).mean_ms,
        gain=yield_of(result, clock, usd - s3_usd, float(workload.repeats_per_month)),
        cost=hourly_cost(workload.bill(result, period_us=full_us), hours=full_us // US_PER_H),
        cheaper_at=None,
        note="simulated",
    )


def yield_of(result: RunResult, clock: Clock, extra_usd: float, repeats: float) -> Yield:
    """Return what a run gives in a month of this many repeats, and what it costs more than S3 alone."""
    return Yield(extra_usd, (result.n_lambda + result.n_redis) * repeats, clock.saved_ms(result) * repeats)


def s3_usd_per_month(workload: Workload) -> float:
    """Return what S3 alone costs a month."""
    (s3,) = _offers(workload, workload.demand, "s3-only")
    return float(s3.bill.usd_exact * workload.repeats_per_month)


def competitors(workload: Workload, ours: System, clock: Clock, *, without: Sequence[str] = ()) -> list[System]:
    """Return what else one could buy, S3 alone first, then cheapest first.

    Args:
        workload: The log.
        ours: This system, for comparison.
        clock: How long requests take.
        without: Names to leave out, with or without the part after their colon.
    """
    full = _full_hours(workload.demand)  # some things are billed by full hours
    hourly = {
        offer.name: hourly_cost(offer.bill, hours=full.period_us // US_PER_H) for offer in _offers(workload, full)
    }
    found = [
        _competitor(workload, offer, hourly[offer.name], ours, clock, without)
        for offer in _offers(workload, workload.demand)
    ]
    return sorted(found, key=lambda system: (system.name != "s3-only", system.usd_per_month))


def check_without(names: Sequence[str], workload: Workload) -> None:
    """Raise `InvalidSettingError` for a name that is no competitor, and for S3 alone."""
    known = [name for name in offer_names(workload.prices, workload.setup) if name != "s3-only"]
    accepted = {*known, *(name.partition(":")[0] for name in known)}
    for name in names:
        if name not in accepted:
            expected = f"one of {', '.join(known)}, or what stands before its colon"
            raise InvalidSettingError(f"--without {name}: expected {expected}")


def _competitor(
    workload: Workload, offer: Offer, cost: HourlyCost, ours: System, clock: Clock, without: Sequence[str]
) -> System:
    demand, repeats, mean_ms = workload.demand, workload.repeats_per_month, clock.mean_ms(offer)
    usd = float(cost.per_hour_usd * HOURS_PER_MONTH + cost.per_burst_usd * repeats)
    requests = demand.requests * float(repeats)
    saved_ms = (clock.tiers.s3_ms + clock.tiers.network_ms - mean_ms) * requests
    burst_us = demand.last_us - demand.first_us
    in_memory_pct = offer.in_memory_pct
    is_left_out = offer.name in without or offer.name.partition(":")[0] in without
    return System(
        name=offer.name,
        bill=offer.bill,
        usd_per_month=usd,
        in_memory_pct=in_memory_pct,
        mean_ms=mean_ms,
        gain=Yield(usd - s3_usd_per_month(workload), in_memory_pct / 100 * requests, saved_ms),
        cost=cost,
        cheaper_at=burst_frequency(ours.cost, cost, burst_us=burst_us, window_h=HOURS_PER_MONTH),
        why_not="left out by --without" if is_left_out else _why_not(offer.name, demand),
        note=offer.note,
    )


def choices(systems: Sequence[System]) -> list[System]:
    """Return the systems that can be bought and hold the log's objects."""
    return [system for system in systems if not system.why_not]


def _full_hours(demand: Demand) -> Demand:
    return replace(demand, period_us=(-(-demand.period_us // US_PER_H) or 1) * US_PER_H)


def _offers(workload: Workload, demand: Demand, *names: str) -> list[Offer]:
    return offers(demand, workload.prices, workload.setup, names=names, only_cache=workload.only_cache)


def _why_not(name: str, demand: Demand) -> str:
    kind, _, type_ = name.partition(":")
    if kind in _NOT_FOR_SALE:
        return _NOT_FOR_SALE[kind]
    return why_too_small(kind, type_, demand.stored_bytes) if type_ else ""
