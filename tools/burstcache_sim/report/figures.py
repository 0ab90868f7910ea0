"""All pictures of a report."""

from __future__ import annotations

from burstcache_sim.report.cost_figures import breakeven_figure, pareto_figure
from burstcache_sim.report.run_figure import run_figure

__all__ = ["breakeven_figure", "pareto_figure", "run_figure"]
