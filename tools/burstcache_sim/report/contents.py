"""The contents of a report, gathered once for the terminal, the page and the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from burstcache.core.prices import THESIS, PriceSheet
from burstcache_sim.bill.clock import Clock
from burstcache_sim.bill.comparison import OURS, Billing, Compared, compare
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.sampled import of_whole_log
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import offline_usage
from burstcache_sim.bill.usage import THESIS_MEMORY_MB
from burstcache_sim.latency import LatencySummary
from burstcache_sim.optimum.exact import least_cost
from burstcache_sim.optimum.plans import Plan, plan
from burstcache_sim.policies.offline import OfflineResult, offline
from burstcache_sim.policies.policy import Policy
from burstcache_sim.progress import progress
from burstcache_sim.replay import replay, replay_each
from burstcache_sim.units import usd
from burstcache_sim.world.scenario import Scenario

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

OPTIMUM_PRICES = THESIS  # the optimum's integers are this sheet's …
_OPTIMUM_SETUP = ("t2.micro", THESIS_MEMORY_MB)  # … for this node and this much memory of the cache function
Knob = Mapping[str, Sequence[Policy]]
Point = tuple[float, float]  # share from memory [%], cost [USD]


@dataclass(frozen=True, slots=True)
class Plans:
    """What could have run if the future were known; costs of the cache alone [USD]."""

    offline: OfflineResult
    offline_usd: float
    optimum: Plan
    optimum_usd: float | None  # None: the sheet is not the optimum's


@dataclass(frozen=True, slots=True)
class Report:
    """Everything in a report."""

    trace: Trace
    result: RunResult  # of the trace: with a sample of a log's keys, of the sample
    whole: RunResult  # its counts for the whole log; the same without a sample
    demand: Demand
    bill: Bill
    month: Bill  # the trace repeated for a month
    cache_usd: float  # cache function, node and S3 alone
    latency: LatencySummary
    latency_without: LatencySummary  # S3 read directly
    compared: tuple[Compared, ...]
    fronts: Mapping[str, tuple[Point, ...]]  # by policy; costs as in `bill`
    plans: Plans | None  # of one key only

    @property
    def ours(self) -> Compared:
        """This system among the compared ones."""
        return next(system for system in self.compared if system.name == OURS)


def gather(
    policy: Policy,
    trace: Trace,
    billing: Billing,
    *,
    clock: Clock,
    knobs: Knob,
    penalty_units: int | None = None,
) -> Report:
    """Simulate, bill, compare, plan.

    Args:
        policy: What decides.
        trace: Requests, at least one.
        billing: How they are billed.
        clock: How long requests take.
        knobs: Per policy the settings to try for the Pareto plot.
        penalty_units: What a miss costs the optimum; None if it serves everything from memory [cost units].

    Raises:
        InvalidSettingError: The trace is empty.
        PriceMissingError: The sheet has no price for this system.
    """
    scenario = Scenario(trace, billing.setup.nodes)
    result = replay(policy, scenario)
    demand = billing.demand(trace)
    whole = of_whole_log(result, trace, demand.requests)
    clock = clock.of_log(trace, object_bytes=billing.setup.object_bytes)

    def point(run: RunResult) -> Point:
        tried = of_whole_log(run, trace, demand.requests)
        return tried.in_memory_pct, billing.bill(tried, demand).usd

    return Report(
        trace=trace,
        result=result,
        whole=whole,
        demand=demand,
        bill=billing.bill(whole, demand),
        month=billing.month(whole, demand),
        cache_usd=replace(billing, only_cache=True).bill(whole, demand).usd,
        latency=clock.with_burstcache(whole),
        latency_without=clock.without(whole.n),
        compared=tuple(compare(policy, trace, billing, result=result)),
        fronts={
            name: tuple(map(point, replay_each(tries, scenario)))
            for name, tries in progress(knobs.items(), text="policies")
        },
        plans=None if trace.key_ids is not None else _plans(trace, billing.prices, billing.setup, penalty_units),
    )


def _plans(trace: Trace, prices: PriceSheet, setup: Setup, penalty_units: int | None) -> Plans:
    found = offline(trace.arrivals_us.tolist())
    optimum = plan(trace.arrivals_us, penalty_units)
    objective_units, misses = least_cost(trace.arrivals_us, penalty_units)
    is_priced = prices.name == OPTIMUM_PRICES and (setup.instance_type, setup.cache_memory_mb) == _OPTIMUM_SETUP
    return Plans(
        offline=found,
        offline_usd=bill(offline_usage(found, setup), prices, only_cache=True).usd,
        optimum=optimum,
        optimum_usd=usd(objective_units - misses * (penalty_units or 0)) if is_priced else None,
    )
