"""What one could buy for a log, as `burstcache advise` weighs it: bill, hits, latency, and whether it can be bought."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Literal

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.comparison import OURS, Compared, Comparison
from burstcache_sim.bill.competitors import offer_names
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import counted
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.worth import Value, Yield
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.world.result import RunResult

_NOT_FOR_SALE = {
    "perfect-automation": "a bound: it knows the log",
    "lambda-always": "lacks the relay it would need",
    "infinicache": "a research prototype",
}
LatencyClass = Literal["up to 2 ms", "single-digit ms", "10 ms or more", "S3"]
# How old an answer may be: never older than S3's, older by a known bound, or of any age after a write to the bucket.
Freshness = Literal["current", "bounded", "any age"]
_FRESHNESS: dict[str, Freshness] = {"s3-only": "current", "reader-memory-confirmed": "bounded", OURS: "bounded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class System(Compared):
    """One thing to buy, for a month of the log. All shares are of the month, where what is always on stays warm."""

    mean_ms: float
    hit_ms: float  # of a whole answer without S3, in the mean
    first_byte_ms: float  # of the same
    class_ms: float  # of the first bytes of the slower kind of them, if a rival stands below own memory
    gain: Yield  # by the column that decides
    free_gain: Yield  # after permanent allowances, or with CloudFront's cheapest plan
    list_gain: Yield  # nothing deducted
    why_not: str = ""  # reason it cannot be bought; empty if it can

    @property
    def kind(self) -> str:
        """What stands before the colon of its name."""
        return self.name.partition(":")[0]

    @property
    def latency_class(self) -> LatencyClass:
        """How fast an answer without S3 is."""
        if self.name == "s3-only":
            return "S3"
        return "up to 2 ms" if self.class_ms <= 2 else "single-digit ms" if self.class_ms < 10 else "10 ms or more"

    @property
    def freshness(self) -> Freshness:
        """How old an answer may be."""
        return _FRESHNESS.get(self.kind, "any age")


@dataclass(frozen=True)
class Weighing:
    """By what systems are weighed: the log, the clock, the column of the bill, and what S3 alone costs."""

    workload: Workload
    clock: Clock
    value: Value
    free_tiers: bool = False
    has_memory: bool = True  # whether readers stay and keep objects in their own memory
    memory_mb: tuple[int, ...] = (64, 256, 1024, 4096)  # of a reader, as a rival's readers may have

    @property
    def repeats(self) -> float:
        """How often the log comes in a month."""
        return float(self.workload.repeats_per_month)

    @property
    def requests(self) -> float:
        """How many requests a month has."""
        return self.workload.demand.requests * self.repeats

    @cached_property
    def s3_usd(self) -> float:
        """What S3 alone costs a month, nothing deducted [USD]."""
        return s3_usd_per_month(self.workload)

    @cached_property
    def s3_free_usd(self) -> float:
        """What S3 alone costs a month after permanent allowances [USD]."""
        (s3,) = self.comparison(self.workload.demand).of_offers(names=("s3-only",))
        return s3.free_usd_per_month

    @cached_property
    def locality(self) -> Locality:
        """The log as caches see it."""
        return self.workload.locality(self.workload.trace)

    @property
    def usd_per_hit(self) -> Fraction:
        """What an answer without S3 is worth at most [USD]."""
        return self.worth_usd(self.value)

    def worth_usd(self, value: Value) -> Fraction:
        """Return what an answer without S3 is worth at most, by another value [USD]."""
        return self.clock.usd_per_hit(usd_per_hit=value.usd_per_hit, usd_per_ms=value.usd_per_ms)

    def yield_of(self, result: RunResult, extra_usd: float) -> Yield:
        """Return what a run gives in a month, and what it costs more than S3 alone."""
        served = result.n_lambda + result.n_redis
        hits, saved_ms = self.clock.hits(result), self.clock.saved_ms(result)
        return Yield(extra_usd, hits * self.repeats, saved_ms * self.repeats, served * self.repeats)

    def comparison(self, demand: Demand, *, value: Value | None = None) -> Comparison:
        """Return what compares systems on a demand."""
        workload = self.workload
        return Comparison(
            demand,
            self.locality,
            workload.prices,
            workload.setup,
            workload.only_cache,
            usd_per_hit=self.worth_usd(value or self.value),
            own_memory_mb=self.memory_mb[-1],
        )


@dataclass(frozen=True, slots=True)
class _Timed:
    """The mean latency of all requests, of hits, and of the first bytes of hits [ms]."""

    mean_ms: float
    hit_ms: float
    first_byte_ms: float

    @classmethod
    def of_run(cls, clock: Clock, run: RunResult) -> _Timed:
        """Return those of this system."""
        return cls(clock.with_burstcache(run).mean_ms, clock.mean_hit_ms(run), clock.first_bytes.mean_hit_ms(run))

    @classmethod
    def of_offer(cls, clock: Clock, offer: Compared) -> _Timed:
        """Return those of a competitor."""
        return cls(clock.mean_ms(offer), clock.offered_hit_ms(offer), clock.first_bytes.offered_hit_ms(offer))


def our_system(weighing: Weighing, result: RunResult, s3: Compared) -> System:
    """Return this system under a run.

    Args:
        weighing: By what it is weighed.
        result: What a policy made of the log.
        s3: S3 alone.
    """
    clock = weighing.clock
    ours = weighing.comparison(weighing.workload.own_demand).of_run(result)
    gains = [
        weighing.yield_of(result, extra_usd)
        for extra_usd in (
            ours.usd_per_month - s3.usd_per_month,
            ours.free_usd_per_month - s3.free_usd_per_month,
        )
    ]
    return _system(weighing, ours, gains, _Timed.of_run(clock, result))


def month_system(
    weighing: Weighing, setup: Setup, month_of: Callable[[Market], RunResult], *, note: str
) -> tuple[System, RunResult]:
    """Return this system under a setup whose rungs stay as they are when the log comes again, and a run of it.

    Args:
        weighing: By what it is weighed.
        setup: How it is deployed.
        month_of: Returns the run of a market's months.
        note: What it is.
    """
    clock, workload = weighing.clock, weighing.workload
    ours, run = weighing.comparison(workload.own_demand).of_months(setup, month_of, note=note)
    requests = weighing.requests

    def share(count: float) -> float:
        """Return a part of the requests, rounded as a rival's."""
        return round(count / run.n, 8) * requests

    hits, saved_ms, served = share(clock.hits(run)), clock.saved_ms(run) / run.n * requests, share(run.n - run.n_s3)
    gains = [
        Yield(extra_usd, hits, saved_ms, served)
        for extra_usd in (ours.usd_per_month - weighing.s3_usd, ours.free_usd_per_month - weighing.s3_free_usd)
    ]
    return _system(weighing, ours, gains, _Timed.of_run(clock, run)), run


def s3_usd_per_month(workload: Workload) -> float:
    """Return what S3 alone costs a month, with the way to readers on the internet [USD]."""
    demand, prices = workload.demand, workload.prices
    usd = demand.requests * prices.usd("s3-get")
    if workload.setup.readers == "internet" and not workload.only_cache:
        usd += Fraction(demand.internet_bytes, BYTES_PER_GB) * prices.usd("internet-transfer")
    return float(usd * workload.repeats_per_month)


def competitors(
    weighing: Weighing, result: RunResult | None = None, *, without: Sequence[str] = (), names: tuple[str, ...] = ()
) -> list[System]:
    """Return what else one could buy, S3 alone first, then cheapest first.

    Args:
        weighing: By what they are weighed.
        result: What this system's policy made of the log, for the number of bursts at which it is cheaper.
        without: Names to leave out, with or without the part after their colon.
        names: Those to compare, S3 alone among them; empty for all.
    """
    run = None if result is None else weighing.comparison(weighing.workload.own_demand).of_run(result)
    compared = weighing.comparison(weighing.workload.demand).of_offers(run, names=names)
    s3 = next(system for system in compared if system.name == "s3-only")
    found = [_competitor(weighing, system, s3, without) for system in compared]
    return sorted(found, key=lambda one: (one.name != "s3-only", one.usd_per_month))


def at_values(weighing: Weighing, ours: System, values_usd: Sequence[float]) -> list[System]:
    """Return S3 Express by other values of a hit than the given one: what it copies depends on it."""
    found = []
    for usd in values_usd:
        comparison = weighing.comparison(weighing.workload.demand, value=Value(usd_per_hit=usd))
        compared = comparison.of_offers(ours, names=("s3-only", "s3-express"))
        s3 = next(system for system in compared if system.name == "s3-only")
        found += [_competitor(weighing, system, s3, ()) for system in compared if system is not s3]
    return found


def check_without(names: Sequence[str], workload: Workload) -> None:
    """Raise `InvalidSettingError` for a name that is no competitor, and for S3 alone."""
    known = [name for name in offer_names(workload.prices, workload.setup) if name != "s3-only"]
    accepted = {*known, *(name.partition(":")[0] for name in known)}
    for name in names:
        kind, colon, of = name.partition(":")
        if f"{kind}{colon}{counted(of)[1]}" not in accepted:
            expected = f"one of {', '.join(known)}, or what stands before its colon"
            raise InvalidSettingError(f"--without {name}: expected {expected}")


def shown_pct(pct: float) -> float:
    """Return a share of hits as it is shown; a system of which that is 0 is no alternative [%]."""
    return round(pct, 1)


def choices(systems: Sequence[System]) -> list[System]:
    """Return the systems that can be bought."""
    return [system for system in systems if not system.why_not]


def _competitor(weighing: Weighing, compared: Compared, s3: Compared, without: Sequence[str]) -> System:
    clock, name, kind = weighing.clock, compared.name, compared.name.partition(":")[0]
    timed = _Timed.of_offer(clock, compared)
    requests = weighing.requests
    served = compared.month_in_memory_pct / 100 * requests
    saved_ms = (clock.s3_ms + clock.tiers.network_ms - timed.mean_ms) * requests
    hits = served if clock.is_hit(name) else compared.own_memory_pct / 100 * requests
    gains = [
        Yield(extra_usd, hits, saved_ms, served, compared.confirmed_pct / 100 * requests)
        for extra_usd in (
            compared.usd_per_month - s3.usd_per_month,
            compared.free_usd_per_month - s3.free_usd_per_month,
        )
    ]
    # Where no reader stays, none confirms, and none keeps ranges.
    parts = {name, kind, kind.removesuffix("-confirmed").replace("range-", "reader-"), *kind.split("+")}
    is_out = not parts.isdisjoint(without)
    why_not = "left out by --without" if is_out else _NOT_FOR_SALE.get(kind, "")
    if name != "s3-only" and not (shown_pct(compared.month_in_memory_pct) or shown_pct(compared.confirmed_pct)):
        why_not = why_not or "answers no request"
    if "+" in kind:
        why_not = why_not or _idle_half(compared)
    return _system(weighing, compared, gains, timed, why_not=why_not)


def _idle_half(compared: Compared) -> str:
    """Return which half of a rival behind own memory is of no use; empty if both answer requests."""
    own_pct, pct = shown_pct(compared.own_memory_pct), shown_pct(compared.month_in_memory_pct)
    if not own_pct:
        return "own memory answers no request"
    return f"{compared.name.partition('+')[2]} answers no request that own memory leaves" if own_pct == pct else ""


def _system(
    weighing: Weighing,
    compared: Compared,
    gains: Sequence[Yield],
    timed: _Timed,
    *,
    why_not: str = "",
) -> System:
    same = {field.name: getattr(compared, field.name) for field in fields(compared)}
    same["in_memory_pct"] = compared.month_in_memory_pct
    list_gain, free_gain = gains
    return System(
        **same,
        mean_ms=timed.mean_ms,
        hit_ms=timed.hit_ms,
        first_byte_ms=timed.first_byte_ms,
        class_ms=weighing.clock.first_byte_ms(compared.name) if compared.own_memory_pct else timed.first_byte_ms,
        gain=free_gain if weighing.free_tiers else list_gain,
        free_gain=free_gain,
        list_gain=list_gain,
        why_not=why_not,
    )
