"""A report's pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burstcache_sim.bill.comparison import OURS, Compared
from burstcache_sim.latency import TierLatencies
from burstcache_sim.report.cost_figures import breakeven_figure, pareto_figure
from burstcache_sim.report.run_figure import run_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_sim.report.contents import Report

_LONGEST = 45  # characters of a title that leave room behind it
_OTHERS = ("s3-only", "lambda-only", "serverless-valkey", "cloudfront")
_NODES = (("ec2:",), ("elasticache-valkey:", "elasticache-redis:"))  # one of each, the first kind that is present


def pictures(report: Report, *, latencies: TierLatencies, title: str, instance_type: str) -> dict[str, Figure]:
    """Return the run, the Pareto plot and the break-even plot, by the names of their files.

    Args:
        report: What was gathered.
        latencies: What the tiers take.
        title: The trace's name.
        instance_type: This system's node; the competitors' nodes in the plots are of the same type if possible.
    """
    trace = title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"
    shown = representative(report.compared, instance_type)
    plans = report.plans
    burst_us = report.demand.last_us - report.demand.first_us
    window_h = next((system.cheaper_at.window_h for system in report.compared if system.cheaper_at), 1)
    return {
        "run": run_figure(
            report.trace.arrivals_us,
            report.result,
            optimum=plans.optimum if plans else None,
            offline=plans.offline if plans else None,
            latencies=latencies,
            title=title,
            usd=report.cache_usd,
            optimum_usd=plans.optimum_usd if plans else None,
            offline_usd=plans.offline_usd if plans else None,
        ),
        "pareto": pareto_figure(
            report.fronts,
            points={_name(system): (system.in_memory_pct, system.usd) for system in shown},
            subtitle=f"{trace} · each point is one setting of a policy's knob",
            cost_label="cost of the trace's period [USD]",
        ),
        "breakeven": breakeven_figure(
            {_name(system): system.hourly for system in shown},
            ours=_name(report.ours),
            burst_us=burst_us,
            window_h=window_h,
            title="Cost against how often the trace comes",
            subtitle=f"{trace} · rings: where Burstcache stops, or begins, to be the cheaper one",
        ),
    }


def representative(compared: Sequence[Compared], instance_type: str) -> list[Compared]:
    """Return this system and one competitor of each kind that is really for sale."""
    by_name = {system.name: system for system in compared}
    chosen = [by_name[OURS], *(by_name[name] for name in _OTHERS if name in by_name)]
    for kinds in _NODES:
        nodes = [system for kind in kinds for system in compared if system.name.startswith(kind)]
        same = [system for system in nodes if system.name.endswith(f":{instance_type}")]
        if nodes:
            chosen.append(same[0] if same else min(nodes, key=lambda system: system.usd))
    return chosen


def _name(system: Compared) -> str:
    return "Burstcache (this run)" if system.name == OURS else system.name
