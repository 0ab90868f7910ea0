"""The workload of a log: its requests, their repetition over a month, and the deployment that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.node_kinds import node_kind
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.comparison import own_bill
from burstcache_sim.bill.demand import Demand, demand_of, metered_512kb, per_request, sample_rate, stored_bytes
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.renewal import with_renewal
from burstcache_sim.bill.sampled import scale_to_log
from burstcache_sim.bill.setup import LARGEST_OBJECT_BYTES, Setup
from burstcache_sim.policies.policy import Policy
from burstcache_sim.replay import replay_each
from burstcache_sim.traces.trace import exact_sum
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import node_timings
from burstcache_terminal.text import fixed_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.bill.cost import Bill
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

_WORKERS = 2
_MUCH_PCT = 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """A log with its billing. Requests for objects that Burstcache redirects to S3 are billed but never replayed."""

    trace: Trace
    demand: Demand  # demand of all requests
    prices: PriceSheet
    setup: Setup
    kept: Trace  # requests for objects that Burstcache may cache
    own_demand: Demand  # requests through Burstcache, without the bodies of redirected objects
    only_cache: bool = False
    capacity_bytes: int | None = None  # memory of a node (None if unlimited)
    same_objects: bool = False  # whether each repetition reads the same objects (`bill.renewal`)

    @property
    def redirected(self) -> int:
        """The number of requests redirected to S3."""
        return per_request(self.trace, len(self.trace) - len(self.kept))

    @property
    def repeats_per_month(self) -> Fraction:
        """Repetitions of the log in a month, back to back."""
        return Fraction(HOURS_PER_MONTH * US_PER_H, self.demand.period_us)

    @property
    def excess_pct(self) -> float:
        """The excess of monthly requests over an evenly spaced load [%].

        If a log repeats without a pause, its period ends with its last request, so N requests have only N - 1 gaps.
        """
        demand = self.demand
        is_whole = demand.period_us == demand.last_us - demand.first_us
        return 100 / (demand.requests - 1) if is_whole and demand.requests > 1 else 0.0

    def locality(self, trace: Trace) -> Locality:
        """Return the locality of the log or of a part of it, over the repetitions of a month."""
        once = locality_of(trace, object_bytes=self.setup.object_bytes, period_us=self.demand.period_us)
        return once if self.same_objects else with_renewal(once)

    def replay(self, policies: Sequence[Policy]) -> list[RunResult]:
        """Replay the log under each policy, without details."""
        return [self._with_redirected(result) for result in replay_each(policies, self._scenario, workers=_WORKERS)]

    def replay_in_detail(self, policy: Policy) -> RunResult:
        """Replay the log under one policy, with details."""
        return self._with_redirected(replay_each([policy], self._scenario, details=True)[0])

    @property
    def _scenario(self) -> Scenario:
        rate = sample_rate(self.kept)
        capacity_bytes = None if self.capacity_bytes is None else max(1, int(self.capacity_bytes * rate))
        timings = node_timings(node_kind(self.setup.instance_type), self.setup.node_times)
        return Scenario(self.kept, self.setup.nodes, capacity_bytes, timings=timings)

    def _with_redirected(self, result: RunResult) -> RunResult:
        """Return a run of the whole log, including the redirected requests."""
        result = scale_to_log(result, self.kept, self.demand.requests - self.redirected)
        if not (more := self.redirected):
            return result
        n, n_s3, s3_requests = result.n + more, result.n_s3 + more, result.s3_requests + more
        return replace(result, n=n, n_s3=n_s3, s3_requests=s3_requests, tiers="")

    def bill(self, result: RunResult, *, period_us: int | None = None) -> Bill:
        """Return a run's bill for at least the log's period. Resources that outlast the period are billed in full."""
        demand = replace(self.own_demand, period_us=period_us or self.own_demand.period_us)
        return own_bill(result, demand, self.prices, self.setup, only_cache=self.only_cache)

    def usd_per_month(self, result: RunResult) -> float:
        """Return a run's monthly bill [USD]."""
        return float(self.bill(result).usd_exact * self.repeats_per_month)

    def part(self, first: int, last: int, share: Fraction) -> Workload:
        """Return the requests `first` to `last - 1` with a share of the log's period."""
        return workload_of(
            self.trace.part(slice(first, last)),
            self.prices,
            self.setup,
            period_us=int(self.demand.period_us * share),
            only_cache=self.only_cache,
            capacity_bytes=self.capacity_bytes,
        )


def workload_of(
    trace: Trace,
    prices: PriceSheet,
    setup: Setup,
    *,
    period_us: int | None = None,
    only_cache: bool = False,
    capacity_bytes: int | None = None,
) -> Workload:
    """Return the workload of a log.

    Args:
        trace: Requests, at least one.
        prices: Prices of the region.
        setup: The deployment.
        period_us: Period after which the log repeats [us]. If None, it repeats back to back.
        only_cache: Whether to bill only the cache and cache every object, as in the thesis.
        capacity_bytes: Memory of a node, ignored if the log lacks keys or sizes.

    Raises:
        InvalidSettingError: The trace is empty, or the period is out of range.
    """
    demand = demand_of(trace, object_bytes=setup.object_bytes, period_us=period_us)
    has_sizes = trace.key_ids is not None and trace.sizes_bytes is not None
    kept, own_demand = (trace, demand) if only_cache else _without_large(trace, demand, setup)
    capacity_bytes = capacity_bytes if has_sizes else None
    return Workload(trace, demand, prices, setup, kept, own_demand, only_cache, capacity_bytes)


def _without_large(trace: Trace, demand: Demand, setup: Setup) -> tuple[Trace, Demand]:
    """Return the cacheable requests, and the demand without the bodies of all other requests."""
    is_kept = may_be_cached(trace, setup)
    if is_kept.all():
        return trace, demand
    kept = trace.part(is_kept)
    return kept, replace(
        demand,
        body_bytes=per_request(trace, 0 if kept.bodies_bytes is None else exact_sum(kept.bodies_bytes)),
        stored_bytes=round(stored_bytes(kept, setup.object_bytes) / sample_rate(trace)),
        metered_512kb=per_request(trace, metered_512kb(kept, setup.object_bytes) + len(trace) - len(kept)),
    )


def may_be_cached(trace: Trace, setup: Setup) -> NDArray[np.bool_]:
    """Return, for each request, whether its whole object may be cached, by the object's largest size in the log."""
    import numpy as np

    largest_bytes = LARGEST_OBJECT_BYTES[setup.front_door]
    if (whole_bytes := trace.whole_bytes) is None:
        return np.full(len(trace), setup.object_bytes <= largest_bytes)
    is_small = trace.largest_bytes(whole_bytes) <= largest_bytes
    return np.full(len(trace), is_small[0]) if trace.key_ids is None else np.asarray(is_small[trace.key_ids])


def excess_text(workload: Workload) -> str:
    """Return a warning if the log has few requests, otherwise an empty string."""
    if workload.excess_pct < _MUCH_PCT:
        return ""
    return (
        " Repeated without a pause, evenly spaced requests of this log come"
        f" {fixed_text(workload.excess_pct, 1)} % too often (--period-hours)."
    )
