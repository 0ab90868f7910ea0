"""The pictures of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burstcache_sim.bill.comparison import OURS, ComparedSystem
from burstcache_sim.report.cost_figures import pareto_figure
from burstcache_sim.report.run_figure import run_figure, run_summary
from burstcache_terminal.text import number_text, shortened_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_sim.report.contents import Report
    from burstcache_sim.report.money import Money

_LONGEST = 45  # maximum characters of a title, so that more text fits
_OTHERS = ("s3-only", "s3-express", "lambda-only", "serverless-valkey", "cloudfront")
# One system per group: the first with Burstcache's instance type, otherwise the cheapest.
_SIZED = (("reader-memory:",), ("ec2:",), ("elasticache-valkey:", "elasticache-redis:"))


def pictures(report: Report, money: Money, *, title: str, instance_type: str) -> dict[str, Figure]:
    """Return the figures of the run and the Pareto plot, keyed by file name.

    Args:
        report: The report.
        money: Bills of Burstcache and competitors over time.
        title: Name of the trace.
        instance_type: Type of Burstcache's node. Competitors' nodes in the plots have the same type if possible.
    """
    trace = shortened_text(title, _LONGEST)
    plans, billed = report.plans, f"{number_text(report.bill.usd)} USD in all"
    return {
        "run": run_figure(
            report.trace.arrivals_us,
            report.result,
            optimum=plans.optimum if plans else None,
            offline=plans.offline if plans else None,
            money=money,
            title=title,
            subtitle=run_summary(report.whole, report.latency, report.latency_without, billed),
            usd=report.cache_usd,
            optimum_usd=plans.optimum_usd if plans else None,
            offline_usd=plans.offline_usd if plans else None,
        ),
        "pareto": pareto_figure(
            report.fronts,
            points={
                _name(system): (system.in_memory_pct, system.usd)
                for system in representative(report.compared, instance_type)
            },
            subtitle=f"{trace} · each point is one setting of a policy's knob",
            cost_label="cost of the trace's period [USD]",
        ),
    }


def representative(compared: Sequence[ComparedSystem], instance_type: str) -> list[ComparedSystem]:
    """Return Burstcache and one available competitor of each kind."""
    by_name = {system.name: system for system in compared}
    chosen = [by_name[OURS], *(by_name[name] for name in _OTHERS if name in by_name)]
    for kinds in _SIZED:
        sizes = [system for kind in kinds for system in compared if system.name.startswith(kind)]
        same = [system for system in sizes if system.name.endswith(f":{instance_type}")]
        if sizes:
            chosen.append(same[0] if same else min(sizes, key=lambda system: system.usd))
    return chosen


def _name(system: ComparedSystem) -> str:
    return "Burstcache (this run)" if system.name == OURS else system.name
