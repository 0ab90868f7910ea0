"""Systems that compete for a log in `burstcache advise`: bill, hits, latency, and whether they are for sale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Literal

from burstcache.core.errors import InvalidSettingError
from burstcache.core.node_kinds import NodeKind
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.comparison import OURS, ComparedSystem, Comparison
from burstcache_sim.bill.competitors import competitor_names
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.locality import Locality
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.nodes import split_count
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.worth import Value, Yield
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.world.result import RunResult

_NOT_FOR_SALE = {
    "perfect-automation": "a bound: it knows the log in advance",
    "lambda-always": "lacks the relay that it would need",
    "infinicache": "a research prototype",
}
LatencyClass = Literal["up to 2 ms", "single-digit ms", "10 ms or more", "S3"]
# Staleness after a write to the bucket: none, up to a known bound, or without a bound.
Freshness = Literal["current", "bounded", "unbounded"]
_FRESHNESS: dict[str, Freshness] = {"s3-only": "current", "reader-memory-confirmed": "bounded", OURS: "bounded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class System(ComparedSystem):
    """A competitor over a month of the log. Shares refer to the whole month, in which always-on parts stay warm."""

    mean_ms: float
    hit_ms: float  # mean latency of a whole answer without S3
    first_byte_ms: float  # mean first-byte latency of such an answer
    class_ms: float  # first-byte latency that sets the class: the rival's own, even behind readers' memory
    gain: Yield  # by the deciding bill column
    free_gain: Yield  # after permanent allowances, or with CloudFront's cheapest plan
    list_gain: Yield  # at list prices
    ruled_out: str = ""  # reason for exclusion (empty if the system can be chosen)

    @property
    def kind(self) -> str:
        """The part of the name before the colon."""
        return self.name.partition(":")[0]

    @property
    def latency_class(self) -> LatencyClass:
        """The latency class, by the first byte of an answer without S3."""
        if self.name == "s3-only":
            return "S3"
        return "up to 2 ms" if self.class_ms <= 2 else "single-digit ms" if self.class_ms < 10 else "10 ms or more"

    @property
    def freshness(self) -> Freshness:
        """The staleness bound."""
        return _FRESHNESS.get(self.kind, "unbounded")


@dataclass(frozen=True)
class Weighing:
    """The conditions of the comparison: log, latencies, value of latency, and the deciding bill column."""

    workload: Workload
    clock: LatencyModel
    value: Value
    free_tiers: bool = False
    has_memory: bool = True  # whether readers live long enough to keep objects in their own memory
    memory_mb: tuple[int, ...] = (64, 256, 1024, 4096)  # candidate sizes of a reader's memory, the same for all systems
    node_kinds: tuple[NodeKind, ...] = ("ec2",)  # kinds of nodes to try

    @property
    def repeats(self) -> float:
        """Repetitions of the log in a month."""
        return float(self.workload.repeats_per_month)

    @property
    def requests(self) -> float:
        """Requests in a month."""
        return self.workload.demand.requests * self.repeats

    @cached_property
    def s3_usd(self) -> float:
        """Monthly bill of S3 alone, at list prices [USD]."""
        return s3_usd_per_month(self.workload)

    @cached_property
    def s3_free_usd(self) -> float:
        """Monthly bill of S3 alone after permanent allowances [USD]."""
        (s3,) = self.comparison(self.workload.demand).compare_competitors(names=("s3-only",))
        return s3.free_usd_per_month

    @cached_property
    def locality(self) -> Locality:
        """The locality of the log's requests."""
        return self.workload.locality(self.workload.trace)

    @property
    def usd_per_hit(self) -> Fraction:
        """The highest value of an answer without S3 [USD]."""
        return self.worth_usd(self.value)

    def worth_usd(self, value: Value) -> Fraction:
        """Return the highest value of an answer without S3 under another value of latency [USD]."""
        return self.clock.usd_per_hit(usd_per_hit=value.usd_per_hit, usd_per_ms=value.usd_per_ms)

    def yield_of(self, result: RunResult, extra_usd: float) -> Yield:
        """Return the monthly gains of a run that costs `extra_usd` more than S3 alone."""
        served = result.n_lambda + result.n_redis
        hits, saved_ms = self.clock.hits(result), self.clock.saved_ms(result)
        return Yield(extra_usd, hits * self.repeats, saved_ms * self.repeats, served * self.repeats)

    def comparison(self, demand: Demand, *, value: Value | None = None) -> Comparison:
        """Return a comparison of systems under a demand."""
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
    """Mean latencies: of all requests, of hits, and of the first bytes of hits [ms]."""

    mean_ms: float
    hit_ms: float
    first_byte_ms: float

    @classmethod
    def of_run(cls, clock: LatencyModel, run: RunResult) -> _Timed:
        """Return the latencies of a Burstcache run."""
        return cls(clock.with_burstcache(run).mean_ms, clock.mean_hit_ms(run), clock.first_bytes.mean_hit_ms(run))

    @classmethod
    def of_offer(cls, clock: LatencyModel, offer: ComparedSystem) -> _Timed:
        """Return the latencies of a competitor."""
        return cls(clock.mean_ms(offer), clock.competitor_hit_ms(offer), clock.first_bytes.competitor_hit_ms(offer))


def our_system(weighing: Weighing, result: RunResult, s3: ComparedSystem) -> System:
    """Return Burstcache as a system, from one run of the log.

    Args:
        weighing: Conditions of the comparison.
        result: Run of the log under a policy.
        s3: S3 alone.
    """
    clock = weighing.clock
    ours = weighing.comparison(weighing.workload.own_demand).compare_run(result)
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
    """Return Burstcache as a system, and its run over months in which the tiers stay warm.

    Args:
        weighing: Conditions of the comparison.
        setup: Deployment.
        month_of: Function that runs a market for months.
        note: Description of the system.
    """
    clock, workload = weighing.clock, weighing.workload
    ours, run = weighing.comparison(workload.own_demand).compare_months(setup, month_of, note=note)
    requests = weighing.requests

    def share(count: float) -> float:
        """Return a share of the month's requests, rounded like a rival's share."""
        return round(count / run.n, 8) * requests

    hits, saved_ms, served = share(clock.hits(run)), clock.saved_ms(run) / run.n * requests, share(run.n - run.n_s3)
    gains = [
        Yield(extra_usd, hits, saved_ms, served)
        for extra_usd in (ours.usd_per_month - weighing.s3_usd, ours.free_usd_per_month - weighing.s3_free_usd)
    ]
    return _system(weighing, ours, gains, _Timed.of_run(clock, run)), run


def s3_usd_per_month(workload: Workload) -> float:
    """Return the monthly bill of S3 alone, including transfer to readers on the internet [USD]."""
    demand, prices = workload.demand, workload.prices
    usd = demand.requests * prices.usd("s3-get")
    if workload.setup.readers == "internet" and not workload.only_cache:
        usd += Fraction(demand.internet_bytes, BYTES_PER_GB) * prices.usd("internet-transfer")
    return float(usd * workload.repeats_per_month)


def competitors(
    weighing: Weighing, result: RunResult | None = None, *, without: Sequence[str] = (), names: tuple[str, ...] = ()
) -> list[System]:
    """Return the competitors, S3 alone first, then by ascending bill.

    Args:
        weighing: Conditions of the comparison.
        result: Run of the log under Burstcache, for the break-even frequencies.
        without: Names to rule out, with or without the part after the colon.
        names: Names to compare, including S3 alone. If empty, all competitors.
    """
    run = None if result is None else weighing.comparison(weighing.workload.own_demand).compare_run(result)
    compared = weighing.comparison(weighing.workload.demand).compare_competitors(run, names=names)
    s3 = next(system for system in compared if system.name == "s3-only")
    systems = [_competitor(weighing, system, s3, without) for system in compared]
    return sorted(systems, key=lambda system: (system.name != "s3-only", system.usd_per_month))


def at_values(weighing: Weighing, ours: System, values_usd: Sequence[float]) -> list[System]:
    """Return S3 Express at other hit values, which determine its copies."""
    systems = []
    for usd in values_usd:
        comparison = weighing.comparison(weighing.workload.demand, value=Value(usd_per_hit=usd))
        compared = comparison.compare_competitors(ours, names=("s3-only", "s3-express"))
        s3 = next(system for system in compared if system.name == "s3-only")
        systems += [_competitor(weighing, system, s3, ()) for system in compared if system is not s3]
    return systems


def check_without(names: Sequence[str], workload: Workload) -> None:
    """Raise `InvalidSettingError` for a name that is not a competitor, and for S3 alone."""
    every = [name for name in competitor_names(workload.prices, workload.setup) if name != "s3-only"]
    accepted = {*every, *(name.partition(":")[0] for name in every)}
    for name in names:
        kind, colon, of = name.partition(":")
        if f"{kind}{colon}{split_count(of)[1]}" not in accepted:
            expected = f"one of {', '.join(every)}, or such a name up to its colon"
            raise InvalidSettingError(f"--without {name}: expected {expected}")


def shown_pct(pct: float) -> float:
    """Return a hit ratio as printed [%]. A system with a printed 0 is not an alternative."""
    return round(pct, 1)


def for_sale(systems: Sequence[System]) -> list[System]:
    """Return the systems that can be chosen."""
    return [system for system in systems if not system.ruled_out]


def _competitor(weighing: Weighing, compared: ComparedSystem, s3: ComparedSystem, without: Sequence[str]) -> System:
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
    # `--without reader-memory` also rules out revalidation and ranges, which need a reader's memory.
    parts = {name, kind, kind.removesuffix("-confirmed").replace("range-", "reader-"), *kind.split("+")}
    is_out = not parts.isdisjoint(without)
    ruled_out = "excluded by --without" if is_out else _NOT_FOR_SALE.get(kind, "")
    if name != "s3-only" and not (shown_pct(compared.month_in_memory_pct) or shown_pct(compared.confirmed_pct)):
        ruled_out = ruled_out or "answers no request"
    if "+" in kind:
        ruled_out = ruled_out or _idle_half(compared)
    return _system(weighing, compared, gains, timed, ruled_out=ruled_out)


def _idle_half(compared: ComparedSystem) -> str:
    """Return the reason if readers' memory or the rival behind it adds no hit, otherwise an empty string."""
    own_pct, pct = shown_pct(compared.own_memory_pct), shown_pct(compared.month_in_memory_pct)
    if not own_pct:
        return "readers' memory answers no request"
    return f"{compared.name.partition('+')[2]} adds no hit to readers' memory" if own_pct == pct else ""


def _system(
    weighing: Weighing,
    compared: ComparedSystem,
    gains: Sequence[Yield],
    timed: _Timed,
    *,
    ruled_out: str = "",
) -> System:
    copied = {field.name: getattr(compared, field.name) for field in fields(compared)}
    copied["in_memory_pct"] = compared.month_in_memory_pct
    list_gain, free_gain = gains
    return System(
        **copied,
        mean_ms=timed.mean_ms,
        hit_ms=timed.hit_ms,
        first_byte_ms=timed.first_byte_ms,
        class_ms=weighing.clock.first_byte_ms(compared.name) if compared.own_memory_pct else timed.first_byte_ms,
        gain=free_gain if weighing.free_tiers else list_gain,
        free_gain=free_gain,
        list_gain=list_gain,
        ruled_out=ruled_out,
    )
