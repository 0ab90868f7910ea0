"""What one could buy for a log, as `burstcache advise` weighs it: bill, hits, latency, and whether it can be bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.comparison import Compared, Comparison
from burstcache_sim.bill.competitors import offer_names, offers
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.nodes import why_too_small
from burstcache_sim.choose.advise.worth import Yield
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.world.result import RunResult

_NOT_FOR_SALE = {
    "perfect-automation": "a bound: it knows the log",
    "lambda-always": "lacks the relay it would need",
    "infinicache": "a research prototype",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class System(Compared):
    """One thing to buy, for a month of the log."""

    mean_ms: float
    gain: Yield
    why_not: str = ""  # reason it cannot be bought; empty if it can


def our_system(workload: Workload, result: RunResult, clock: Clock, s3_usd: float) -> System:
    """Return this system under a run.

    Args:
        workload: The log.
        result: What a policy made of it.
        clock: How long requests take.
        s3_usd: What S3 alone costs a month.
    """
    ours = _comparison(workload, workload.own_demand).of_run(result)
    return _system(
        ours,
        mean_ms=clock.with_burstcache(result).mean_ms,
        gain=yield_of(result, clock, ours.usd_per_month - s3_usd, float(workload.repeats_per_month)),
    )


def yield_of(result: RunResult, clock: Clock, extra_usd: float, repeats: float) -> Yield:
    """Return what a run gives in a month of this many repeats, and what it costs more than S3 alone."""
    return Yield(extra_usd, (result.n_lambda + result.n_redis) * repeats, clock.saved_ms(result) * repeats)


def s3_usd_per_month(workload: Workload) -> float:
    """Return what S3 alone costs a month."""
    names = ("s3-only",)
    (s3,) = offers(workload.demand, workload.prices, workload.setup, names=names, only_cache=workload.only_cache)
    return float(s3.bill.usd_exact * workload.repeats_per_month)


def competitors(workload: Workload, ours: System, clock: Clock, *, without: Sequence[str] = ()) -> list[System]:
    """Return what else one could buy, S3 alone first, then cheapest first.

    Args:
        workload: The log.
        ours: This system, for comparison.
        clock: How long requests take.
        without: Names to leave out, with or without the part after their colon.
    """
    s3_usd = s3_usd_per_month(workload)
    found = [
        _competitor(workload, compared, clock, s3_usd, without)
        for compared in _comparison(workload, workload.demand).of_offers(ours)
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


def _competitor(workload: Workload, compared: Compared, clock: Clock, s3_usd: float, without: Sequence[str]) -> System:
    name, mean_ms = compared.name, clock.mean_ms(compared)
    requests = workload.demand.requests * float(workload.repeats_per_month)
    saved_ms = (clock.tiers.s3_ms + clock.tiers.network_ms - mean_ms) * requests
    is_left_out = name in without or name.partition(":")[0] in without
    return _system(
        compared,
        mean_ms=mean_ms,
        gain=Yield(compared.usd_per_month - s3_usd, compared.in_memory_pct / 100 * requests, saved_ms),
        why_not="left out by --without" if is_left_out else _why_not(name, workload.demand),
    )


def _system(compared: Compared, *, mean_ms: float, gain: Yield, why_not: str = "") -> System:
    same = {field.name: getattr(compared, field.name) for field in fields(compared)}
    return System(**same, mean_ms=mean_ms, gain=gain, why_not=why_not)


def _comparison(workload: Workload, demand: Demand) -> Comparison:
    return Comparison(demand, workload.prices, workload.setup, workload.only_cache)


def choices(systems: Sequence[System]) -> list[System]:
    """Return the systems that can be bought and hold the log's objects."""
    return [system for system in systems if not system.why_not]


def _why_not(name: str, demand: Demand) -> str:
    kind, _, type_ = name.partition(":")
    if kind in _NOT_FOR_SALE:
        return _NOT_FOR_SALE[kind]
    return why_too_small(kind, type_, demand.stored_bytes) if type_ else ""
