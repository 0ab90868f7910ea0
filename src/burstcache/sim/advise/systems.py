"""What one could buy for a log, as `burstcache advise` weighs it: bill, hits, latency, and whether it can be bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from burstcache.core.cost import Bill
from burstcache.core.prices import PriceSheet
from burstcache.errors import InvalidSettingError
from burstcache.sim.advise.worth import Yield
from burstcache.sim.costs.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency, hourly_cost
from burstcache.sim.costs.comparison import HOURS_PER_MONTH, own_bill
from burstcache.sim.costs.competitors import Offer, offers
from burstcache.sim.costs.demand import Demand
from burstcache.sim.costs.usage import US_PER_H
from burstcache.sim.latency import LatencySummary, TierLatencies, summarise
from burstcache.sim.result import RunResult
from burstcache.sim.tune.search import Workload

OURS = "burstcache"
_GIB = 1024**3
# What is left for objects: this system gives Redis three quarters (template.yaml), ElastiCache reserves a quarter.
_MEMORY_SHARE = Fraction(3, 4)
# Memory of instances and cache nodes [GiB]; AWS's pages, from memory.
_MEMORY_GIB = {
    "t2.micro": 1.0,
    "t3.micro": 1.0,
    "t3a.micro": 1.0,
    "t4g.nano": 0.5,
    "t4g.micro": 1.0,
    "t4g.small": 2.0,
    "t4g.medium": 4.0,
    "t4g.large": 8.0,
    "m7g.medium": 4.0,
    "m7g.large": 8.0,
    "r7g.medium": 8.0,
    "r7g.large": 16.0,
    "r8g.medium": 8.0,
    "r8g.large": 16.0,
}
_USUAL_TYPES = ("t4g.micro", "t4g.small", "r7g.large")  # by memory; the first is the template's default
_CACHE_NODE_GIB = {"t2.micro": 0.555, "t3.micro": 0.5, "t4g.micro": 0.5, "r7g.large": 13.07, "r8g.large": 13.07}
_NOT_FOR_SALE = {
    "perfect-automation": "a bound: it knows the log",
    "lambda-always": "lacks the relay it would need",
    "infinicache": "a research prototype",
}
# A hit that is not Redis's: CloudFront's edge is a guess, InfiniCache invokes a function (Wang 2020, section 5.2).
_HIT_MS = {"cloudfront": 10.0, "infinicache": 13.0}


@dataclass(frozen=True, slots=True)
class System:
    """One thing to buy, for a month of the log."""

    name: str
    bill: Bill  # of the log's period
    usd_per_month: float
    in_memory_pct: float
    mean_ms: float
    gain: Yield
    cost: HourlyCost  # by the hour, and by each time that the log comes
    cheaper_at: BurstFrequency | None  # how often the log may come so that Burstcache is cheaper
    why_not: str = ""  # why it is no choice; empty: it is one
    note: str = ""


@dataclass(frozen=True, slots=True)
class Clock:
    """How long requests take: the tiers' latencies, and what the front door and the proxy add to each of ours."""

    tiers: TierLatencies
    front_door_ms: float

    def with_burstcache(self, result: RunResult) -> LatencySummary:
        """Return the latencies of a run, as a client in the region sees them."""
        ours = replace(self.tiers, network_ms=self.tiers.network_ms + self.front_door_ms)
        return summarise(result.n_s3, result.n_lambda, result.n_redis, ours)

    def without(self, requests: int) -> LatencySummary:
        """Return the latencies of S3 read directly."""
        return summarise(requests, 0, 0, self.tiers)

    def saved_ms(self, result: RunResult) -> float:
        """Return what a run's requests save against S3, all together; below 0 if they lose."""
        t = self.tiers
        hits_ms = result.n_lambda * (t.s3_ms - t.lambda_ms) + result.n_redis * (t.s3_ms - t.redis_ms)
        return hits_ms - result.n * self.front_door_ms

    def mean_ms(self, offer: Offer) -> float:
        """Return the mean latency of a competitor, which clients read directly; a miss asks it, then S3."""
        kind = offer.name.partition(":")[0]
        if kind == "s3-only":
            return self.tiers.s3_ms + self.tiers.network_ms
        hit_ms = self.tiers.lambda_ms if kind == "lambda-always" else _HIT_MS.get(kind, self.tiers.redis_ms)
        missed = 1 - max(offer.in_memory_pct, 0) / 100
        return hit_ms + missed * self.tiers.s3_ms + self.tiers.network_ms


def node_capacity_bytes(instance_type: str) -> int | None:
    """Return what Redis holds on a node of ours [bytes]; None: not known."""
    gib = _MEMORY_GIB.get(instance_type)
    return None if gib is None else int(gib * _MEMORY_SHARE * _GIB)


def fitting_type(prices: PriceSheet, stored_bytes: int) -> str:
    """Return the smallest of the template's usual nodes that holds so much; the largest of them if none does.

    Args:
        prices: Only nodes that it has a price for.
        stored_bytes: All objects of a log together [bytes].
    """
    priced = [type_ for type_ in _USUAL_TYPES if type_ in prices.kinds("ec2:")] or [_USUAL_TYPES[0]]
    fitting = (type_ for type_ in priced if (node_capacity_bytes(type_) or 0) >= stored_bytes)
    return next(fitting, priced[-1])


def our_system(workload: Workload, result: RunResult, clock: Clock, s3_usd: float) -> System:
    """Return this system under a run.

    Args:
        workload: The log.
        result: What a policy made of it.
        clock: How long requests take.
        s3_usd: What S3 alone costs a month.
    """
    billed = _own_bill(workload, result, workload.demand)
    usd = float(billed.usd_exact * workload.repeats_per_month)
    full = _full_hours(workload.demand)
    return System(
        name=OURS,
        bill=billed,
        usd_per_month=usd,
        in_memory_pct=result.in_memory_pct,
        mean_ms=clock.with_burstcache(result).mean_ms,
        gain=yield_of(result, clock, usd - s3_usd, float(workload.repeats_per_month)),
        cost=hourly_cost(_own_bill(workload, result, full), hours=full.period_us // US_PER_H),
        cheaper_at=None,
        note="simulated",
    )


def yield_of(result: RunResult, clock: Clock, extra_usd: float, repeats: float) -> Yield:
    """Return what a run gives in a month of so many repeats, for so much more than S3 alone."""
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
        without: Names, or what stands before their colon, that are no choice for the person who asks.

    Raises:
        InvalidSettingError: There is no such competitor.
    """
    full = _full_hours(workload.demand)  # some things are billed by full hours
    hourly = {
        offer.name: hourly_cost(offer.bill, hours=full.period_us // US_PER_H) for offer in _offers(workload, full)
    }
    kinds = {name.partition(":")[0] for name in hourly}
    if strange := [name for name in without if name == "s3-only" or name not in kinds | hourly.keys()]:
        known = ", ".join(name for name in hourly if name != "s3-only")
        raise InvalidSettingError(f"--without {strange[0]}: expected one of {known}, or what stands before its colon")
    found = [
        _competitor(workload, offer, hourly[offer.name], ours, clock, without)
        for offer in _offers(workload, workload.demand)
    ]
    return sorted(found, key=lambda system: (system.name != "s3-only", system.usd_per_month))


def _competitor(
    workload: Workload, offer: Offer, cost: HourlyCost, ours: System, clock: Clock, without: Sequence[str]
) -> System:
    demand, repeats, mean_ms = workload.demand, workload.repeats_per_month, clock.mean_ms(offer)
    usd = float(cost.per_hour_usd * HOURS_PER_MONTH + cost.per_burst_usd * repeats)
    requests = demand.requests * float(repeats)
    saved_ms = (clock.tiers.s3_ms + clock.tiers.network_ms - mean_ms) * requests
    burst_us = demand.last_us - demand.first_us
    in_memory_pct = max(offer.in_memory_pct, 0.0)  # below 0 where a function is fetched anew more often than asked
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
    """Return what can be bought and holds the log's objects."""
    return [system for system in systems if not system.why_not]


def _full_hours(demand: Demand) -> Demand:
    return replace(demand, period_us=(-(-demand.period_us // US_PER_H) or 1) * US_PER_H)


def _offers(workload: Workload, demand: Demand, *names: str) -> list[Offer]:
    return offers(demand, workload.prices, workload.setup, names=names, only_cache=workload.only_cache)


def _own_bill(workload: Workload, result: RunResult, demand: Demand) -> Bill:
    return own_bill(result, demand, workload.prices, workload.setup, only_cache=workload.only_cache)


def _why_not(name: str, demand: Demand) -> str:
    kind, _, type_ = name.partition(":")
    if kind in _NOT_FOR_SALE:
        return _NOT_FOR_SALE[kind]
    if not type_:
        return ""
    gib = (_CACHE_NODE_GIB if kind.startswith("elasticache") else _MEMORY_GIB).get(type_)
    if gib is None:
        return "its memory is not known"
    if demand.stored_bytes > gib * float(_MEMORY_SHARE) * _GIB:
        return f"too small for {demand.stored_bytes / _GIB:.2g} GB"
    return ""
