"""This system and what one could buy instead, for one trace: period, month, share from memory, break-even."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency, hourly_cost
from burstcache_sim.bill.competitors import Offer, offers
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.demand import Demand, demand_of
from burstcache_sim.bill.usage import Setup, live_usage, thesis_usage
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

OURS = "burstcache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One system on a trace. `cheaper_at`: how often the trace may come for Burstcache to be cheaper."""

    name: str
    bill: Bill  # of the trace's period
    usd_per_month: float  # the trace repeated for a month
    in_memory_pct: float
    cheaper_at: BurstFrequency | None  # None: it is Burstcache
    hourly: HourlyCost  # from a bill over full hours
    note: str = ""

    @property
    def usd(self) -> float:
        """What the trace's period costs [USD]."""
        return self.bill.usd


@dataclass(frozen=True, slots=True)
class Comparison:
    """What systems are compared on. A burst is the whole trace, once."""

    demand: Demand
    prices: PriceSheet
    setup: Setup
    only_cache: bool = False  # the thesis's view: cache function, node and S3 alone
    window_h: int = HOURS_PER_MONTH  # in which bursts are counted [h]

    def of_run(
        self, result: RunResult, *, ours: Compared | None = None, name: str = OURS, note: str = "simulated"
    ) -> Compared:
        """Return this system under a run; raises `PriceMissingError`."""

        def bill_of(demand: Demand) -> Bill:
            return own_bill(result, demand, self.prices, self.setup, only_cache=self.only_cache)

        full = self._full_hours()
        hourly = hourly_cost(bill_of(full), hours=full.period_us // US_PER_H)
        return self._compared(name, bill_of(self.demand), hourly, result.in_memory_pct, note, ours)

    def of_offers(self, ours: Compared, *, names: tuple[str, ...] = ()) -> list[Compared]:
        """Return what one could buy instead, cheapest first.

        Args:
            ours: This system.
            names: As in `competitors.offers`.

        Raises:
            InvalidSettingError: A name is none of the offers'.
            PriceMissingError: An offer that was named has no price in the sheet.
        """
        full = self._full_hours()
        hourly = {
            offer.name: hourly_cost(offer.bill, hours=full.period_us // US_PER_H) for offer in self._offers(full, names)
        }
        return [
            self._compared(offer.name, offer.bill, hourly[offer.name], offer.in_memory_pct, offer.note, ours)
            for offer in self._offers(self.demand, names)
        ]

    def _compared(
        self, name: str, billed: Bill, hourly: HourlyCost, in_memory_pct: float, note: str, ours: Compared | None
    ) -> Compared:
        repeats = Fraction(HOURS_PER_MONTH * US_PER_H, self.demand.period_us)
        burst_us = self.demand.last_us - self.demand.first_us
        return Compared(
            name=name,
            bill=billed,
            usd_per_month=float(hourly.per_hour_usd * HOURS_PER_MONTH + hourly.per_burst_usd * repeats),
            in_memory_pct=in_memory_pct,
            cheaper_at=None
            if ours is None
            else burst_frequency(ours.hourly, hourly, burst_us=burst_us, window_h=self.window_h),
            hourly=hourly,
            note=note,
        )

    def _offers(self, demand: Demand, names: tuple[str, ...]) -> list[Offer]:
        return offers(demand, self.prices, self.setup, names=names, only_cache=self.only_cache)

    def _full_hours(self) -> Demand:
        # Break-even needs full hours: some things are billed by them, and hourly prices must not look dearer.
        return replace(self.demand, period_us=(-(-self.demand.period_us // US_PER_H) or 1) * US_PER_H)


def demand_for(result: RunResult, trace: Trace, setup: Setup, period_us: int | None = None) -> Demand:
    """Return a trace's demand; the period lasts from the first request until the run has ended, or longer."""
    lasts_us = result.end_us - int(trace.arrivals_us[0]) if len(trace) else 0
    return demand_of(trace, object_bytes=setup.object_bytes, period_us=max(period_us or 0, lasts_us))


def own_bill(result: RunResult, demand: Demand, prices: PriceSheet, setup: Setup, *, only_cache: bool = False) -> Bill:
    """Return a run's bill over the demand's period; raises `PriceMissingError`."""
    if only_cache:
        return bill(thesis_usage(result, setup), prices, only_cache=True)
    sized = replace(setup, object_bytes=demand.body_bytes // demand.requests)  # the trace's own, if it has any
    metered = demand.metered_512kb
    return bill(
        live_usage(result, sized, period_us=demand.period_us, wakes=demand.wakes, metered_512kb=metered), prices
    )


@dataclass(frozen=True, slots=True)
class Billing:
    """How runs are billed."""

    prices: PriceSheet
    setup: Setup
    period_us: int | None = None  # for which hourly prices are paid, at least the trace's duration
    only_cache: bool = False  # the thesis's view: cache function, node and S3 alone

    def demand(self, result: RunResult, trace: Trace) -> Demand:
        """Return what a run's trace asks for; raises `InvalidSettingError` if it is empty."""
        return demand_for(result, trace, self.setup, self.period_us)

    def bill(self, result: RunResult, demand: Demand) -> Bill:
        """Return a run's bill over the demand's period; raises `PriceMissingError`."""
        return own_bill(result, demand, self.prices, self.setup, only_cache=self.only_cache)


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
    lambda_only = replay(policy.without_redis(len(trace)), scenario)
    demand = billing.demand(result, trace)
    is_short = demand.last_us - demand.first_us <= US_PER_H
    comparison = Comparison(demand, prices, setup, billing.only_cache, window_h=1 if is_short else HOURS_PER_MONTH)
    without_node = replace(comparison, setup=replace(setup, nodes=0))
    ours = comparison.of_run(result)
    note = "simulated, the same policy without a node"
    return [
        ours,
        without_node.of_run(lambda_only, ours=ours, name="lambda-only", note=note),
        *comparison.of_offers(ours, names=against),
    ]
