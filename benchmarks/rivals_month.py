"""The bills of `docs/understand/comparison.md`: a month of bursts and an idle month, by system.

The month is that of the sample log in `docs/use/advise.md`: 16 processes, each on a machine of its own, read 200 new
tiles of 2 MB in a burst of 40 minutes a day, 60,833 requests a month. The idle month has one request. All systems are
billed as by `burstcache advise`.

    python -m benchmarks.rivals_month
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from benchmarks.client.common import print_table
from benchmarks.support.common import PROJECT
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.comparison import ComparedSystem, Comparison
from burstcache_sim.bill.policy_month import policy_month
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.bill.static_tiers import static_month
from burstcache_sim.choose.tune.workload import workload_of
from burstcache_sim.policies.policy import Options
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.traces.read import read_log
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H

LOG = PROJECT / "examples/logs/bursts.csv.gz"
_PERIOD_H = 96  # the log's four days
_HIT_VALUE_USD = Fraction(1, 10_000)
_ALONE = Setup(relay="none", nodes=0, instance_type="fargate-spot:0.5GB", reader_processes=16)
_WITH_NODE = replace(_ALONE, nodes=1)
# A setup of Burstcache, or a name of `burstcache_sim.bill.competitors`, by the page's name for it.
SYSTEMS: dict[str, Setup | str] = {
    "boto3 alone": "s3-only",
    "Burstcache, library": "reader-memory-confirmed:256MB",
    "Burstcache, library, `immutable`": "reader-memory:256MB",
    "Burstcache, stack without nodes": replace(_ALONE, reader_memory_bytes=256 << 20),
    "Burstcache, Fargate node while it pays": _WITH_NODE,
    "the same with an `nlb` relay": replace(_WITH_NODE, relay="nlb"),
    "Burstcache, Fargate node that never stops": replace(_WITH_NODE, always_on_nodes=1),
    "Valkey in your own Fargate Spot task": "fargate-spot:0.5GB",
    "Valkey on your own `t4g.nano`": "ec2:t4g.nano",
    "S3 Express, copies by price": "s3-express",
    "ElastiCache node, Valkey": "elasticache-valkey:t4g.micro",
    "ElastiCache Serverless, Valkey": "serverless-valkey:1GB",
    "CloudFront": "cloudfront",
    "InfiniCache": "infinicache",
}


@dataclass(frozen=True, slots=True)
class Month:
    """The bill of a month of bursts, the share of its requests answered without S3, and the bill of an idle month."""

    usd: float
    hits_pct: float
    idle_usd: float
    free_usd: float  # the month of bursts after AWS's permanent allowances


def months(path: Path = LOG) -> dict[str, Month]:
    """Return the months of all systems, by the page's name."""
    trace = read_log([str(path)]).trace
    bursts, idle = _bills(trace, _PERIOD_H), _bills(trace.part(slice(1)), HOURS_PER_MONTH)
    return {
        name: Month(of.usd_per_month, of.month_in_memory_pct, idle[name].usd_per_month, of.free_usd_per_month)
        for name, of in bursts.items()
    }


def usd_text(usd: float) -> str:
    """Return an amount as on the page: cents below ten dollars."""
    return f"{usd:.2f}" if usd < 10 else f"{usd:.1f}"


def _bills(trace: Trace, period_h: int) -> dict[str, ComparedSystem]:
    """Return the bills of all systems for a log that repeats."""
    prices = price_sheet("today-us-east-1")
    workload = workload_of(trace, prices, _ALONE, period_us=period_h * US_PER_H)
    comparison = Comparison(workload.own_demand, workload.locality(trace), prices, _ALONE, usd_per_hit=_HIT_VALUE_USD)
    names = tuple(system for system in SYSTEMS.values() if isinstance(system, str))
    rivals = {found.name: found for found in comparison.compare_competitors(names=names)}
    return {
        name: rivals[system] if isinstance(system, str) else _own(comparison, system)
        for name, system in SYSTEMS.items()
    }


def _own(comparison: Comparison, setup: Setup) -> ComparedSystem:
    """Return the bill of a setup of Burstcache, whose nodes and cache functions the break-even policy starts."""
    if not setup.decides:
        return comparison.compare_months(setup, partial(static_month, copied_usd=None), note="")[0]
    options = Options(hit_value_usd=_HIT_VALUE_USD, has_relay=setup.relay != "none")
    policy = WORTH_POLICIES["breakeven"].from_options(options, policy_prices(comparison.prices, setup))
    return comparison.compare_months(setup, partial(policy_month, policy=policy, copied_usd=None), note="")[0]


def main() -> None:
    """Print a row per system."""
    rows = [
        (name, usd_text(month.usd), f"{month.hits_pct:.0f}", usd_text(month.idle_usd), usd_text(month.free_usd))
        for name, month in months().items()
    ]
    print_table(("System", "USD a month", "hits, %", "idle, USD", "after free tiers, USD"), rows)


if __name__ == "__main__":
    main()
