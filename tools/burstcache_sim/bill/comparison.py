"""This system and what one could buy instead, for one trace: period, month, share from memory, break-even."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.allowances import free_usd
from burstcache_sim.bill.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency, hourly_cost
from burstcache_sim.bill.competitors import offers
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.demand import Demand, demand_of
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.renewal import with_renewal
from burstcache_sim.bill.sampled import of_whole_log
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import Passage, live_usage, thesis_usage
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

OURS = "burstcache"
_REQUESTS_OF_A_RUN = 10**9  # at least, so that a share of them is exact to more digits than are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One system on a trace. `cheaper_at`: how often the trace may come for Burstcache to be cheaper."""

    name: str
    bill: Bill  # of the trace's period, once
    month: Bill  # the trace repeated for a month
    in_memory_pct: float  # of the period, once
    month_in_memory_pct: float  # in the month: what is always on stays warm
    cheaper_at: BurstFrequency | None  # None: it is Burstcache
    hourly: HourlyCost  # from a bill over full hours, in the mean of the month
    note: str = ""
    own_memory_pct: float = 0.0  # of the month: what readers' own memory answers before a rival is asked
    confirmed_pct: float = 0.0  # of the month, as the next three in `market.Offer`
    largest_bytes: int | None = None
    own_memory_bytes: int | None = None

    @property
    def usd(self) -> float:
        """What the trace's period costs [USD]."""
        return self.bill.usd

    @property
    def usd_per_month(self) -> float:
        """What a month costs, nothing deducted [USD]."""
        return self.month.usd

    @property
    def free_usd_per_month(self) -> float:
        """What a month costs after AWS's permanent allowances, or with CloudFront's cheapest plan [USD]."""
        return float(free_usd(self.month)[0])

    @property
    def plan(self) -> str:
        """The flat-rate plan of CloudFront behind `free_usd_per_month`; empty if there is none."""
        return free_usd(self.month)[1]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What systems are compared on. A burst is the whole trace, once."""

    demand: Demand
    locality: Locality
    prices: PriceSheet
    setup: Setup
    only_cache: bool = False  # the thesis's view: cache function, node and S3 alone
    window_h: int = HOURS_PER_MONTH  # in which bursts are counted [h]
    usd_per_hit: Fraction = Fraction(0)  # what others may weigh when they choose what to keep
    own_memory_mb: int = 4096  # the largest memory that a reader may have

    @property
    def repeats(self) -> Fraction:
        """How often the trace comes in a month."""
        return Fraction(HOURS_PER_MONTH * US_PER_H, self.demand.period_us)

    def of_run(
        self, result: RunResult, *, ours: Compared | None = None, name: str = OURS, note: str = "simulated"
    ) -> Compared:
        """Return this system under a run; raises `PriceMissingError`."""

        def bill_of(demand: Demand) -> Bill:
            again_us = self.demand.period_us
            return own_bill(result, demand, self.prices, self.setup, only_cache=self.only_cache, again_us=again_us)

        pct = result.in_memory_pct
        alone = with_own_tail(result, self.demand)
        once = own_bill(result, alone, self.prices, self.setup, only_cache=self.only_cache)
        return self._compared(name, once, bill_of(self._full_hours()), (pct, pct), note, ours)

    def of_months(
        self, setup: Setup, month_of: Callable[[Market], RunResult], *, note: str
    ) -> tuple[Compared, RunResult]:
        """Return this system under a setup whose rungs stay as they are when the log comes again, and its run.

        A run has whole requests. It is that of many months at once, so that none of its shares is rounded to them.

        Args:
            setup: How it is deployed.
            month_of: Returns the run of a market's months.
            note: What it is.

        Raises:
            PriceMissingError: The sheet has no price for something that it takes.
        """
        times, runs, bills = self.repeats, [], []
        for repeats in (Fraction(1), times):
            months = ceil(_REQUESTS_OF_A_RUN / (self.demand.requests * repeats))
            market = replace(self._market(self.demand, repeats), setup=setup, months=months)
            runs.append(month_of(market))
            billed = own_bill(runs[-1], self.demand.repeated(market.all_repeats), self.prices, setup)
            bills.append(billed.month(periods=Fraction(1, months), repeats=Fraction(1, months)))
        once, month = bills
        shares = [round(100 * (1 - run.n_s3 / run.n), 6) for run in runs]
        compared = Compared(
            name=OURS,
            bill=once,
            month=month,
            in_memory_pct=shares[0],
            month_in_memory_pct=shares[1],
            cheaper_at=None,
            hourly=HourlyCost(month.fixed_usd_exact / HOURS_PER_MONTH, month.variable_usd_exact / times),
            note=note,
        )
        return compared, runs[1]

    def of_offers(self, ours: Compared | None = None, *, names: tuple[str, ...] = ()) -> list[Compared]:
        """Return what one could buy instead, cheapest first.

        Args:
            ours: This system, for the number of bursts at which it is cheaper; None leaves that open.
            names: As in `competitors.offers`.

        Raises:
            InvalidSettingError: A name is none of the offers'.
            PriceMissingError: An offer that was named has no price in the sheet.
        """
        of_month = {offer.name: offer for offer in offers(self._market(self._full_hours(), self.repeats), names=names)}
        found = []
        for once in offers(self._market(self.demand, Fraction(1)), names=names):
            warm = of_month[once.name]
            shares = (once.in_memory_pct, warm.in_memory_pct)
            compared = self._compared(once.name, once.bill, warm.bill, shares, warm.note, ours)
            found.append(
                replace(
                    compared,
                    own_memory_pct=warm.own_memory_pct,
                    confirmed_pct=warm.confirmed_pct,
                    largest_bytes=warm.largest_bytes,
                    own_memory_bytes=warm.own_memory_bytes,
                )
            )
        return found

    def _compared(
        self, name: str, once: Bill, full: Bill, shares: tuple[float, float], note: str, ours: Compared | None
    ) -> Compared:
        hours = self._full_hours().period_us // US_PER_H
        hourly = hourly_cost(full, hours=hours)
        burst_us = self.demand.last_us - self.demand.first_us
        return Compared(
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
        # Break-even needs full hours: some things are billed by them, and hourly prices must not look dearer.
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
        demand: What the trace asks for; its period is that of hourly prices.
        prices: Prices of the region.
        setup: How the system is deployed.
        only_cache: The thesis's view: cache function, node and S3 alone.
        again_us: After how long the trace comes again; None for the demand's period [us].

    Raises:
        PriceMissingError: The sheet has no price for something that was used.
    """
    if only_cache:
        return bill(thesis_usage(result, setup), prices, only_cache=True)
    sized = replace(setup, object_bytes=demand.body_bytes // demand.requests)  # the trace's own, if it has any
    passage = Passage(
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
        passage=passage,
        busy_s=demand.busy_s,
        digest_reads=demand.digest_reads,
        span_us=demand.last_us - demand.first_us,
        objects=demand.objects,
    )
    # What outlasts a log that comes again at once meets its own next run: a node is on at most all the time.
    most_h = Fraction(again_us or demand.period_us, US_PER_H) * max(1, setup.nodes)
    return bill(replace(usage, node_h=min(usage.node_h, most_h)), prices)


def with_own_tail(result: RunResult, demand: Demand) -> Demand:
    """Return a demand whose period lasts until the run has ended: nobody else pays for what outlasts the trace."""
    return replace(demand, period_us=max(demand.period_us, result.end_us - demand.first_us))


@dataclass(frozen=True, slots=True)
class Billing:
    """How runs are billed."""

    prices: PriceSheet
    setup: Setup
    period_us: int | None = None  # for which hourly prices are paid, at least the trace's duration
    only_cache: bool = False  # the thesis's view: cache function, node and S3 alone
    usd_per_hit: Fraction = Fraction(0)  # what others may weigh when they choose what to keep
    same_objects: bool = False  # whether each repetition asks for the same objects

    def demand(self, trace: Trace) -> Demand:
        """Return what a trace asks for; raises `InvalidSettingError` if it is empty."""
        return demand_of(trace, object_bytes=self.setup.object_bytes, period_us=self.period_us)

    def locality(self, trace: Trace, demand: Demand) -> Locality:
        """Return a trace as caches see it, month by month."""
        found = locality_of(trace, object_bytes=self.setup.object_bytes, period_us=demand.period_us)
        return found if self.same_objects else with_renewal(found)

    def market(self, trace: Trace) -> Market:
        """Return what others are billed for, once; raises `InvalidSettingError` if the trace is empty."""
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
        """Return a run's bill over the demand's period and what it outlasts it; raises `PriceMissingError`."""
        own = with_own_tail(result, demand)
        return own_bill(result, own, self.prices, self.setup, only_cache=self.only_cache)

    def month(self, result: RunResult, demand: Demand) -> Bill:
        """Return a run's bill over a month of repetitions: what stands all the time is paid once."""
        lasts_us = with_own_tail(result, demand).period_us
        month_us = HOURS_PER_MONTH * US_PER_H
        return self.bill(result, demand).month(
            periods=Fraction(month_us, lasts_us), repeats=Fraction(month_us, demand.period_us)
        )


def compare(
    policy: Policy,
    trace: Trace,
    billing: Billing,
    *,
    result: RunResult | None = None,
    against: tuple[str, ...] = (),
) -> list[Compared]:
    """Compare this system with its competitors; itself first, then cheapest first.

    Args:
        policy: This system's.
        trace: Requests.
        billing: How they are billed.
        result: The result of `replay` for these; None simulates here.
        against: Names of competitors (`bill.competitors`); if empty, all that the sheet has prices for.

    Raises:
        InvalidSettingError: An unknown competitor, or an empty trace.
        PriceMissingError: The sheet has no price for this system or for a competitor that was named.
    """
    prices, setup, scenario = billing.prices, billing.setup, Scenario(trace, billing.setup.nodes)
    if result is None:
        result = replay(policy, scenario)
    demand = billing.demand(trace)
    result, lambda_only = (
        of_whole_log(run, trace, demand.requests)
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
    ours = comparison.of_run(result)
    note = "simulated, the same policy without a node"
    return [
        ours,
        without_node.of_run(lambda_only, ours=ours, name="lambda-only", note=note),
        *comparison.of_offers(ours, names=against),
    ]
