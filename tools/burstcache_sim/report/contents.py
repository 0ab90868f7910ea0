"""The contents of a report, computed once for terminal, page and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from burstcache.core.prices import THESIS, PriceSheet
from burstcache_sim.bill.comparison import OURS, Billing, ComparedSystem, compare
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.demand import Demand
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.sampled import scale_to_log
from burstcache_sim.bill.scenarios import scenario_of
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

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

OPTIMUM_PRICES = THESIS  # the optimum's integer costs are exact only for this price sheet
_OPTIMUM_SETUP = ("t2.micro", THESIS_MEMORY_MB)  # and for this node type and cache function memory
Knob = Mapping[str, Sequence[Policy]]
Point = tuple[float, float]  # share from memory [%], cost [USD]


@dataclass(frozen=True, slots=True)
class Plans:
    """Clairvoyant plans for a trace, with their cache-only costs [USD]."""

    offline: OfflineResult
    offline_usd: float
    optimum: Plan
    optimum_usd: float | None  # None if the optimum's costs do not apply to this sheet and setup


@dataclass(frozen=True, slots=True)
class Report:
    """All results in a report."""

    trace: Trace
    result: RunResult  # run of the trace, which may be a sample of a log's keys
    whole: RunResult  # scaled to the whole log; equals `result` unless the trace is a sample
    demand: Demand
    bill: Bill
    month: Bill  # the trace repeated for a month
    cache_usd: float  # cost of cache function, node and S3 only
    latency: LatencySummary
    latency_without: LatencySummary  # latencies of direct reads from S3
    compared: tuple[ComparedSystem, ...]
    fronts: Mapping[str, tuple[Point, ...]]  # points by policy, with costs as in `bill`
    plans: Plans | None  # None if the trace has several keys

    @property
    def ours(self) -> ComparedSystem:
        """Burstcache's entry in the comparison."""
        return next(system for system in self.compared if system.name == OURS)


def build_report(
    policy: Policy,
    trace: Trace,
    billing: Billing,
    *,
    clock: LatencyModel,
    knobs: Knob,
    penalty_units: int | None = None,
) -> Report:
    """Simulate and bill a run, compare it with competitors, and plan the optimum.

    Args:
        policy: Policy of the run.
        trace: Requests, at least one.
        billing: Prices, deployment and period.
        clock: Latencies.
        knobs: Settings to try per policy, for the Pareto plot.
        penalty_units: Cost of a miss in the optimum [cost units]. If None, no request misses.

    Raises:
        InvalidSettingError: The trace is empty.
        PriceMissingError: The sheet lacks a price that Burstcache needs.
    """
    result = replay(policy, scenario_of(trace, billing.setup, policy))
    demand = billing.demand(trace)
    whole = scale_to_log(result, trace, demand.requests)
    clock = clock.for_log(trace, object_bytes=billing.setup.object_bytes)

    def point(run: RunResult) -> Point:
        scaled = scale_to_log(run, trace, demand.requests)
        return scaled.in_memory_pct, billing.bill(scaled, demand).usd

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
            name: tuple(map(point, replay_each(tries, scenario_of(trace, billing.setup, tries[0]))))
            for name, tries in progress(knobs.items(), text="policies")
        },
        plans=None if trace.key_ids is not None else _plans(trace, billing.prices, billing.setup, penalty_units),
    )


def _plans(trace: Trace, prices: PriceSheet, setup: Setup, penalty_units: int | None) -> Plans:
    offline_run = offline(trace.arrivals_us.tolist())
    optimum = plan(trace.arrivals_us, penalty_units)
    objective_units, misses = least_cost(trace.arrivals_us, penalty_units)
    is_priced = prices.name == OPTIMUM_PRICES and (setup.instance_type, setup.cache_memory_mb) == _OPTIMUM_SETUP
    return Plans(
        offline=offline_run,
        offline_usd=bill(offline_usage(offline_run, setup), prices, only_cache=True).usd,
        optimum=optimum,
        optimum_usd=usd(objective_units - misses * (penalty_units or 0)) if is_priced else None,
    )
