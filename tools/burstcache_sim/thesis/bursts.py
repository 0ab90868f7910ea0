"""Costs of bursts, compared with an always-on node, ElastiCache, perfect automation and perfect foresight.

Source:
    Thesis, sections 5.1.3 (offline endpoint scheduler), 5.1.4 (perfect automation process), 5.5, table 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import THESIS, price_sheet
from burstcache_sim.bill.breakeven_frequency import BurstFrequency, HourlyCost, burst_frequency
from burstcache_sim.bill.cost import Bill, bill
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import THESIS_MEMORY_MB, thesis_usage
from burstcache_sim.optimum.exact import least_cost
from burstcache_sim.policies.offline import offline
from burstcache_sim.thesis.published import BurstRow, Row, Workload
from burstcache_sim.thesis.samples import QUANTITIES, arrivals_us, requests_of
from burstcache_sim.units import LAMBDA_UNITS_PER_US, REDIS_UNITS_PER_US, usd
from burstcache_sim.world.result import RunResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PRICES = price_sheet(THESIS)
SETUP = Setup("x86", "t2.micro", cache_memory_mb=THESIS_MEMORY_MB)
SELF_HOSTED, ELASTICACHE = "ec2:t2.micro", "elasticache-redis:t2.micro"
_LEAST_NODE_S = 60
_IN_MEMORY_PCT, _LAMBDA_S, _REDIS_S, _TOTAL_USD = (
    next(i for i, quantity in enumerate(QUANTITIES) if quantity.text == text)
    for text in ("in memory [%]", "Lambda [s]", "Redis [s]", "total [USD]")
)
_LAMBDA_USD_PER_S = usd(LAMBDA_UNITS_PER_US * US_PER_S)


@dataclass(frozen=True, slots=True)
class SpikeCosts:
    """The costs of one figure's spikes, one value per trace."""

    duration_s: NDArray[np.float64]
    to_perfect: NDArray[np.float64]  # cost relative to the perfect automation process
    lambda_share_pct: NDArray[np.float64]  # cost of the billed Lambda duration, relative to the total cost
    running_pct: NDArray[np.float64]  # billed time of both layers, relative to the spike's duration
    spikes_self_hosted: NDArray[np.float64]  # spikes per hour up to which an always-on node costs more
    spikes_elasticache: NDArray[np.float64]  # the same for ElastiCache
    in_memory_pct: NDArray[np.float64]


def spike_costs(values: NDArray[np.float64], spans_us: NDArray[np.int64]) -> SpikeCosts:
    """Compare a figure's runs with the systems in the thesis's section 5.5."""
    import numpy as np

    duration_s = spans_us / US_PER_S
    total_usd, lambda_s = values[:, _TOTAL_USD], values[:, _LAMBDA_S]
    self_hosted, elasticache = (np.ceil(float(PRICES.usd(item)) / total_usd) - 1 for item in (SELF_HOSTED, ELASTICACHE))
    return SpikeCosts(
        duration_s=duration_s,
        to_perfect=total_usd / perfect_usd(duration_s),
        lambda_share_pct=100 * lambda_s * _LAMBDA_USD_PER_S / total_usd,
        running_pct=100 * (lambda_s + values[:, _REDIS_S]) / duration_s,
        spikes_self_hosted=self_hosted,
        spikes_elasticache=elasticache,
        in_memory_pct=values[:, _IN_MEMORY_PCT],
    )


def published_costs(row: Row, duration_s: int) -> SpikeCosts:
    """Return the costs of a spike in the thesis's own run."""
    import numpy as np

    values = np.array([[quantity.of_row(row) for quantity in QUANTITIES]])
    return spike_costs(values, np.array([duration_s * US_PER_S]))


def perfect_usd(duration_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cost of a node that runs from the first to the last request [USD]."""
    import numpy as np

    billed_s = np.maximum(_LEAST_NODE_S, np.ceil(duration_s))
    return np.asarray(billed_s * usd(REDIS_UNITS_PER_US * US_PER_S))


def row_bill(row: Row) -> Bill:
    """Return the bill for the counts in a row of table A.1."""
    run = RunResult(
        n=row.n,
        n_s3=row.s3_requests - row.cold_starts - row.redis_starts,
        n_lambda=0,
        n_redis=0,
        lambda_ms=row.lambda_ms,
        invocations=row.invocations,
        cold_starts=row.cold_starts,
        redis_s=row.redis_s,
        redis_starts=row.redis_starts,
        s3_requests=row.s3_requests,
        lambda_us_exact=0,
        redis_us_exact=0,
        end_us=0,
    )
    return bill(thesis_usage(run, SETUP), PRICES, only_cache=True)


def table_5_2_row(row: BurstRow, spike: Row) -> tuple[BurstFrequency, BurstFrequency]:
    """Return the spikes per hour up to which the system is cheaper than an always-on node, and than ElastiCache."""
    ours = HourlyCost(Fraction(0), row_bill(spike).usd_exact)
    rivals = [HourlyCost(PRICES.usd(item), Fraction(0)) for item in (SELF_HOSTED, ELASTICACHE)]
    self_hosted, elasticache = (burst_frequency(ours, rival, burst_us=row.duration_s * US_PER_S) for rival in rivals)
    return self_hosted, elasticache


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    """The cost of serving all requests from memory with perfect foresight, one value per trace [USD]."""

    offline_usd: NDArray[np.float64]
    optimum_usd: NDArray[np.float64]


def clairvoyant(workload: Workload, seeds: Sequence[int]) -> Clairvoyant:
    """Return the costs of the thesis's offline endpoint scheduler and of the exact optimum, over random traces."""
    import numpy as np

    traces_us = [arrivals_us(workload, seed, requests_of(workload)) for seed in seeds]
    return Clairvoyant(
        np.array([usd(offline(trace_us).cost_units) for trace_us in traces_us]),
        np.array([usd(least_cost(trace_us)[0]) for trace_us in traces_us]),
    )
