"""Comparison of this system with its competitors on one trace: cost, hit ratio, break-even frequency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.allowances import free_usd
from burstcache_sim.bill.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency, hourly_cost
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.demand import Demand, demand_of
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.renewal import with_renewal
from burstcache_sim.bill.sampled import scale_to_log
from burstcache_sim.bill.scenarios import scenario_of
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import DoorTraffic, live_usage, thesis_usage
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

OURS = "burstcache"
_MIN_RUN_REQUESTS = 10**9  # makes shares more precise than the displayed digits


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystem:
    """Cost and hits of one system on a trace. `cheaper_at`: burst frequencies at which Burstcache is cheaper."""

    name: str
    bill: Bill  # for one period of the trace
    month: Bill  # for a month of repetitions of the trace
    in_memory_pct: float  # over one period
    month_in_memory_pct: float  # over the month, in which an always-on cache stays warm
    cheaper_at: BurstFrequency | None  # None for Burstcache itself
    hourly: HourlyCost  # mean over the month, from a bill for full hours
    note: str = ""
    own_memory_pct: float = 0.0  # over the month: hits in readers' own memory, in front of the competitor
    confirmed_pct: float = 0.0  # over the month (see `market.Quote`, also for the next two fields)
    largest_bytes: int | None = None
    own_memory_bytes: int | None = None

    @property
    def usd(self) -> float:
        """Cost of the trace's period [USD]."""
        return self.bill.usd

    @property
    def usd_per_month(self) -> float:
        """Cost of a month without deductions [USD]."""
        return self.month.usd

    @property
    def free_usd_per_month(self) -> float:
        """Cost of a month after AWS's permanent allowances, or with CloudFront's cheapest plan [USD]."""
        return float(free_usd(self.month)[0])

    @property
    def plan(self) -> str:
        """CloudFront's flat-rate plan behind `free_usd_per_month` (empty without a plan)."""
        return free_usd(self.month)[1]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The load, prices and deployment for comparing systems. A burst is one pass over the whole trace."""

    demand: Demand
    locality: Locality
    prices: PriceSheet
    setup: Setup
    only_cache: bool = False  # as in the thesis: bill cache function, node and S3 only
    window_h: int = HOURS_PER_MONTH  # window for counting bursts [h]
    usd_per_hit: Fraction = Fraction(0)  # hit value, for competitors that choose which objects to keep
    own_memory_mb: int = 4096  # memory limit of each reader

    @property
    def repeats(self) -> Fraction:
        """Repetitions of the trace in a month."""
        return Fraction(HOURS_PER_MONTH * US_PER_H, self.demand.period_us)

    def compare_run(
        self, result: RunResult, *, ours: ComparedSystem | None = None, name: str = OURS, note: str = "simulated"
    ) -> ComparedSystem:
        """Return this system's figures for a run. Raises `PriceMissingError`."""

        def bill_of(demand: Demand) -> Bill:
            again_us = self.demand.period_us
            return own_bill(result, demand, self.prices, self.setup, only_cache=self.only_cache, again_us=again_us)

        pct = result.in_memory_pct
        alone = with_own_tail(result, self.demand)
        once = own_bill(result, alone, self.prices, self.setup, only_cache=self.only_cache)
        return self._compare(name, once, bill_of(self._full_hours()), (pct, pct), note, ours)

    def compare_months(
        self, setup: Setup, month_of: Callable[[Market], RunResult], *, note: str
    ) -> tuple[ComparedSystem, RunResult]:
        """Return this system's figures and its run, for a setup with tiers that stay warm between repetitions.

        A run's counts are integers. Each run spans many months to keep rounding errors in the shares small.

        Args:
            setup: The deployment.
            month_of: Function that runs a market for months.
            note: A note for the output.

        Raises:
            PriceMissingError: The sheet has no price for an item in use.
        """
        times, runs, bills = self.repeats, [], []
        for repeats in (Fraction(1), times):
            months = ceil(_MIN_RUN_REQUESTS / (self.demand.requests * repeats))
            market = replace(self._market(self.demand, repeats), setup=setup, months=months)
            runs.append(month_of(market))
            total = own_bill(runs[-1], self.demand.repeated(market.all_repeats), self.prices, setup)
            bills.append(total.month(periods=Fraction(1, months), repeats=Fraction(1, months)))
        once, month = bills
        shares = [round(100 * (1 - run.n_s3 / run.n), 6) for run in runs]
        ours = ComparedSystem(
            name=OURS,
            bill=once,
            month=month,
            in_memory_pct=shares[0],
            month_in_memory_pct=shares[1],
            cheaper_at=None,
            hourly=HourlyCost(month.fixed_usd_exact / HOURS_PER_MONTH, month.variable_usd_exact / times),
            note=note,
        )
        return ours, runs[1]

    def compare_competitors(
        self, ours: ComparedSystem | None = None, *, names: tuple[str, ...] = ()
    ) -> list[ComparedSystem]:
        """Return the competitors' figures, cheapest first.

        Args:
            ours: This system's figures, to compute `cheaper_at`. If None, `cheaper_at` is None.
            names: Names of competitors, as in `competitors.quotes`.

        Raises:
            InvalidSettingError: A name matches no competitor.
            PriceMissingError: The sheet has no price for a named competitor.
        """
        of_month = {quote.name: quote for quote in quotes(self._market(self._full_hours(), self.repeats), names=names)}
        systems = []
        for once in quotes(self._market(self.demand, Fraction(1)), names=names):
            warm = of_month[once.name]
            shares = (once.in_memory_pct, warm.in_memory_pct)
            system = self._compare(once.name, once.bill, warm.bill, shares, warm.note, ours)
            systems.append(
                replace(
                    system,
                    own_memory_pct=warm.own_memory_pct,
                    confirmed_pct=warm.confirmed_pct,
                    largest_bytes=warm.largest_bytes,
                    own_memory_bytes=warm.own_memory_bytes,
                )
            )
        return systems

    def _compare(
        self, name: str, once: Bill, full: Bill, shares: tuple[float, float], note: str, ours: ComparedSystem | None
    ) -> ComparedSystem:
        hours = self._full_hours().period_us // US_PER_H
        hourly = hourly_cost(full, hours=hours)
        burst_us = self.demand.last_us - self.demand.first_us
        return ComparedSystem(
            name=name,
            bill=once,
            month=full.month(periods=Fraction(HOURS_PER_MONTH, hours), repeats=self.repeats),
            in_memory_pct=shares[0],
            month_in_memory_pct=shares[1],
            cheaper_at=None
            if ours is None
            else burst_frequency(ours.hourly, hourly, burst_us=burst_us, window_h=self.window_h),
            hourly=hourly,
            note=note,
        )

    def _market(self, demand: Demand, repeats: Fraction) -> Market:
        return Market(
            demand=demand,
            locality=self.locality,
            prices=self.prices,
            setup=self.setup,
            only_cache=self.only_cache,
            repeats=repeats,
            usd_per_hit=self.usd_per_hit,
            own_memory_mb=self.own_memory_mb,
        )

    def _full_hours(self) -> Demand:
        # Some items are billed per full hour. A break-even over a shorter period would overstate their hourly price.
        return replace(self.demand, period_us=(-(-self.demand.period_us // US_PER_H) or 1) * US_PER_H)


def own_bill(
    result: RunResult,
    demand: Demand,
    prices: PriceSheet,
    setup: Setup,
    *,
    only_cache: bool = False,
    again_us: int | None = None,
) -> Bill:
    """Return a run's bill.

    Args:
        result: The run.
        demand: The trace's demand. Hourly prices apply to its period.
        prices: Prices of the region.
        setup: The deployment.
        only_cache: As in the thesis: bill cache function, node and S3 only.
        again_us: Time until the trace repeats [us]. If None, the demand's period.

    Raises:
        PriceMissingError: The sheet has no price for an item in use.
    """
    if only_cache:
        return bill(thesis_usage(result, setup), prices, only_cache=True)
    sized = replace(setup, object_bytes=demand.body_bytes // demand.requests)  # the trace's mean response
    traffic = DoorTraffic(
        requests=demand.requests,
        hits=result.n_memory + result.n_lambda + result.n_redis + result.n_express,
        metered_512kb=demand.metered_512kb,
        door_bytes=demand.body_bytes,
        internet_bytes=demand.internet_bytes,
        wakes=demand.wakes,
    )
    usage = live_usage(
        result,
        sized,
        period_us=demand.period_us,
        traffic=traffic,
        busy_s=demand.busy_s,
        digest_reads=demand.digest_reads,
        span_us=demand.last_us - demand.first_us,
        objects=demand.objects,
    )
    # A node that outlasts the trace is still running when the trace repeats. The cap avoids billing that time twice.
    max_h = Fraction(again_us or demand.period_us, US_PER_H) * max(1, setup.nodes)
    return bill(replace(usage, node_h=min(usage.node_h, max_h)), prices)


def with_own_tail(result: RunResult, demand: Demand) -> Demand:
    """Extend a demand's period to the end of the run, because resources may outlast the trace."""
    return replace(demand, period_us=max(demand.period_us, result.end_us - demand.first_us))


@dataclass(frozen=True, slots=True)
class Billing:
    """The prices, deployment and period for billing runs."""

    prices: PriceSheet
    setup: Setup
    period_us: int | None = None  # for hourly prices, at least the trace's duration
    only_cache: bool = False  # as in the thesis: bill cache function, node and S3 only
    usd_per_hit: Fraction = Fraction(0)  # hit value, for competitors that choose which objects to keep
    same_objects: bool = False  # whether each repetition requests the same objects

    def demand(self, trace: Trace) -> Demand:
        """Return a trace's demand. Raises `InvalidSettingError` if the trace is empty."""
        return demand_of(trace, object_bytes=self.setup.object_bytes, period_us=self.period_us)

    def locality(self, trace: Trace, demand: Demand) -> Locality:
        """Return a trace's locality over a month of repetitions."""
        once = locality_of(trace, object_bytes=self.setup.object_bytes, period_us=demand.period_us)
        return once if self.same_objects else with_renewal(once)

    def market(self, trace: Trace) -> Market:
        """Return the market for one repetition of a trace. Raises `InvalidSettingError` if the trace is empty."""
        demand = self.demand(trace)
        return Market(
            demand=demand,
            locality=self.locality(trace, demand),
            prices=self.prices,
            setup=self.setup,
            only_cache=self.only_cache,
            usd_per_hit=self.usd_per_hit,
        )

    def bill(self, result: RunResult, demand: Demand) -> Bill:
        """Return a run's bill over the demand's period, or until a later end of the run. Raises `PriceMissingError`."""
        own = with_own_tail(result, demand)
        return own_bill(result, own, self.prices, self.setup, only_cache=self.only_cache)

    def month(self, result: RunResult, demand: Demand) -> Bill:
        """Return a run's bill over a month of repetitions. Always-on resources are billed once."""
        duration_us = with_own_tail(result, demand).period_us
        month_us = HOURS_PER_MONTH * US_PER_H
        return self.bill(result, demand).month(
            periods=Fraction(month_us, duration_us), repeats=Fraction(month_us, demand.period_us)
        )


def compare(
    policy: Policy,
    trace: Trace,
    billing: Billing,
    *,
    result: RunResult | None = None,
    against: tuple[str, ...] = (),
) -> list[ComparedSystem]:
    """Compare this system with its competitors.

    The result begins with this system and the same policy without a node. Competitors follow by ascending cost.

    Args:
        policy: This system's policy.
        trace: Requests.
        billing: Prices, deployment and period.
        result: The policy's `replay` result on the trace. If None, the policy is replayed here.
        against: Names of competitors (`bill.competitors`). If empty, every competitor with prices in the sheet.

    Raises:
        InvalidSettingError: A competitor is unknown, or the trace is empty.
        PriceMissingError: The sheet has no price for this system or for a named competitor.
    """
    prices, setup = billing.prices, billing.setup
    scenario = scenario_of(trace, setup, policy)
    if result is None:
        result = replay(policy, scenario)
    demand = billing.demand(trace)
    result, lambda_only = (
        scale_to_log(run, trace, demand.requests)
        for run in (result, replay(policy.without_redis(len(trace)), scenario))
    )
    is_short = demand.last_us - demand.first_us <= US_PER_H
    comparison = Comparison(
        demand,
        billing.locality(trace, demand),
        prices,
        setup,
        billing.only_cache,
        window_h=1 if is_short else HOURS_PER_MONTH,
        usd_per_hit=billing.usd_per_hit,
    )
    without_node = replace(comparison, setup=replace(setup, nodes=0))
    ours = comparison.compare_run(result)
    note = "simulated, the same policy without a node"
    return [
        ours,
        without_node.compare_run(lambda_only, ours=ours, name="lambda-only", note=note),
        *comparison.compare_competitors(ours, names=against),
    ]
