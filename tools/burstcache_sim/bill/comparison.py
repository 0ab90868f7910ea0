"""This system and what one could buy instead, for one trace: period, month, share from memory, break-even."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency, hourly_cost
from burstcache_sim.bill.competitors import offers
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.demand import Demand, demand_of
from burstcache_sim.bill.usage import US_PER_H, Setup, live_usage, thesis_usage
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

OURS = "burstcache"
HOURS_PER_MONTH = 730
Bills = Callable[[Demand], list[tuple[str, Bill, float, str]]]


@dataclass(frozen=True, slots=True)
class Compared:
    """One system on the trace. `cheaper_at`: how often the trace may come so that Burstcache is cheaper than it."""

    name: str
    bill: Bill
    usd_per_month: float  # the trace repeated for a month
    in_memory_pct: float
    cheaper_at: BurstFrequency | None
    hourly: HourlyCost  # from a bill over full hours
    note: str = ""

    @property
    def usd(self) -> float:
        """What the trace's period costs [USD]."""
        return self.bill.usd


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


def compare(
    trace: Trace,
    policy: Policy,
    prices: PriceSheet,
    setup: Setup,
    *,
    result: RunResult | None = None,
    period_us: int | None = None,
    against: tuple[str, ...] = (),
    only_cache: bool = False,
) -> list[Compared]:
    """Compare this system with its competitors; itself first, then cheapest first.

    Args:
        trace: Requests.
        policy: This system's.
        prices: Prices of the region.
        setup: How this system is deployed.
        result: The result of `replay` for these; None simulates here.
        period_us: The period that hourly prices are billed for, at least the trace's duration [us].
        against: Names of competitors (`bill.competitors`); if empty, all that the sheet has prices for.
        only_cache: The thesis's view: cache function, node and S3 alone.

    Raises:
        InvalidSettingError: An unknown competitor, or an empty trace.
        PriceMissingError: The sheet has no price for this system or for a competitor that was named.
    """
    if result is None:
        result = replay(policy, Scenario(trace, setup.nodes))
    lambda_only = replay(policy.without_redis(len(trace)), Scenario(trace, setup.nodes))

    def bills(demand: Demand) -> list[tuple[str, Bill, float, str]]:
        ours = own_bill(result, demand, prices, setup, only_cache=only_cache)
        no_node = own_bill(lambda_only, demand, prices, replace(setup, nodes=0), only_cache=only_cache)
        others = offers(demand, prices, setup, names=against, only_cache=only_cache)
        return [
            (OURS, ours, result.in_memory_pct, "simulated"),
            ("lambda-only", no_node, lambda_only.in_memory_pct, "simulated, the same policy without a node"),
            *((offer.name, offer.bill, offer.in_memory_pct, offer.note) for offer in others),
        ]

    demand = demand_for(result, trace, setup, period_us)
    return _compared(demand, bills)


def _compared(demand: Demand, bills: Bills) -> list[Compared]:
    # Break-even needs full hours: some things are billed by them, and hourly prices must not look dearer.
    hours = -(-demand.period_us // US_PER_H) or 1
    hourly = {
        name: hourly_cost(bill_, hours=hours) for name, bill_, *_ in bills(replace(demand, period_us=hours * US_PER_H))
    }
    repeats_per_month = Fraction(HOURS_PER_MONTH * US_PER_H, max(demand.period_us, 1))
    burst_us = demand.last_us - demand.first_us
    window_h = 1 if burst_us <= US_PER_H else HOURS_PER_MONTH

    def cheaper_at(name: str) -> BurstFrequency | None:
        if name == OURS:
            return None
        return burst_frequency(hourly[OURS], hourly[name], burst_us=burst_us, window_h=window_h)

    return [
        Compared(
            name=name,
            bill=bill_,
            usd_per_month=_month_usd(hourly[name], repeats_per_month),
            in_memory_pct=in_memory_pct,
            cheaper_at=cheaper_at(name),
            hourly=hourly[name],
            note=note,
        )
        for name, bill_, in_memory_pct, note in bills(demand)
    ]


def _month_usd(cost: HourlyCost, repeats: Fraction) -> float:
    return float(cost.per_hour_usd * HOURS_PER_MONTH + cost.per_burst_usd * repeats)
