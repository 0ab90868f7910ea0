"""Pictures of cost: against the share served from memory, and against how often a burst comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING

from burstcache_sim.bill.breakeven_frequency import HourlyCost
from burstcache_sim.report.drawing import INK, LINE_COLOURS, drawing, head, new_figure, ticks_1_2_5
from burstcache_sim.report.labels import Label, Point, label_ends, label_points, label_rings
from burstcache_sim.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE_IN = (9.0, 4.9)
_PLACE = (0.1, 0.12, 0.64, 0.68)  # room for labels on the right
_BESIDE = 1.03  # where they begin, in widths of the plot
_DASHES = ("-", "--", "-.", ":")
_LOGARITHMIC_FROM = 30.0  # times between the least and the most
_MOST_PER_H = 60  # bursts that are drawn if nothing else says how many: a burst of one request has no length


def pareto_figure(
    fronts: Mapping[str, Sequence[Point]],
    *,
    points: Mapping[str, Point] | None = None,
    title: str = "Cost against the share served from memory",
    subtitle: str = "",
    cost_label: str = "cost [USD]",
) -> Figure:
    """Draw the cost and the share from memory at each step of a knob.

    Args:
        fronts: Per policy the outcomes of its knob, in any order: share from memory [%], cost [USD].
        points: Systems without a knob, named in the picture.
        title: Of the picture.
        subtitle: Below the title.
        cost_label: What the cost is for.
    """
    singles = points or {}
    with drawing():
        figure = new_figure(*_SIZE_IN)
        axes = figure.add_axes(_PLACE)
        for (name, front), colour in zip(fronts.items(), cycle(LINE_COLOURS)):
            x, y = zip(*sorted(front), strict=True) if front else ((), ())
            axes.plot(x, y, "o-", markersize=4, linewidth=1.4, color=colour, label=name)
        for x_pct, usd in singles.values():
            axes.plot([x_pct], [usd], "D", markersize=5.5, color=INK, mec="white", mew=0.8, zorder=3)
        _set_cost(axes, [usd for front in (*fronts.values(), singles.values()) for _, usd in front], cost_label)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("requests served from memory [%]")
        if fronts:
            axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, columnspacing=1.6)
        head(figure, title, *filter(None, [subtitle]))
        label_points(axes, singles, x=_BESIDE)
    return figure


def breakeven_figure(
    costs: Mapping[str, HourlyCost],
    *,
    ours: str,
    burst_us: int,
    window_h: int = 1,
    title: str = "Break-even",
    subtitle: str = "",
) -> Figure:
    """Draw what systems cost against how often a burst comes; a ring marks where ours stops or starts to be cheaper.

    Args:
        costs: Per system its cost per hour and per burst, ours among them.
        ours: The name of ours.
        burst_us: How long a burst lasts [us].
        window_h: The window in which bursts are counted [h].
        title: Of the picture.
        subtitle: Below the title.

    Source:
        Thesis, section 5.5 "Burst Frequency", table 5.2.
    """
    from matplotlib.ticker import MaxNLocator

    most = _most_bursts(costs, ours, burst_us, window_h)
    window = "hour" if window_h == 1 else "month" if window_h == HOURS_PER_MONTH else f"{window_h} h"
    with drawing():
        figure = new_figure(*_SIZE_IN)
        axes = figure.add_axes(_PLACE)
        ends = []
        others = zip((name for name in costs if name != ours), cycle(LINE_COLOURS), cycle(_DASHES), strict=False)
        for name, colour, dash in ((ours, INK, "-"), *others):
            first, last = (_usd(costs[name], bursts, window_h) for bursts in (0, most))
            axes.plot([0, most], [first, last], dash, color=colour, linewidth=2.4 if name == ours else 1.4)
            ends.append(Label(most, last, name, colour))
        crossings = _crossings(costs, ours, window_h, most)
        rings = [(f"{bursts:.3g}", (bursts, _usd(costs[ours], bursts, window_h))) for bursts in crossings]
        for _, at in rings:
            axes.plot(*at, "o", markersize=8, mfc="white", mec=INK, mew=1.4)
        _shade_overlap(axes, window_h * 3_600e6 / max(burst_us, 1), most)
        axes.set_xlim(0, most)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
        axes.set_ylim(0, 1.08 * max(max(_usd(cost, b, window_h) for b in (0, most)) for cost in costs.values()))
        axes.set_xlabel(f"bursts per {window}")
        axes.set_ylabel(f"cost [USD per {window}]")
        _grid(axes)
        head(figure, title, *filter(None, [subtitle]))
        label_ends(axes, ends, x=_BESIDE)
        label_rings(axes, rings)
    return figure


def _usd(cost: HourlyCost, bursts: float, window_h: int) -> float:
    return float(cost.per_hour_usd) * window_h + float(cost.per_burst_usd) * bursts


def _crossings(costs: Mapping[str, HourlyCost], ours: str, window_h: int, most: float) -> list[float]:
    """Return the numbers of bursts at which ours costs the same as another, as far as they are drawn."""
    found = []
    for name, cost in costs.items():
        steeper = costs[ours].per_burst_usd - cost.per_burst_usd
        if name != ours and steeper:
            bursts = float((cost.per_hour_usd - costs[ours].per_hour_usd) * window_h / steeper)
            if 1 <= bursts <= most:
                found.append(bursts)
    return sorted(found)


def _most_bursts(costs: Mapping[str, HourlyCost], ours: str, burst_us: int, window_h: int) -> float:
    """Return how far the picture reaches: a little beyond the last break-even, but not far beyond what fits."""
    fitting = window_h * 3_600e6 / max(burst_us, 1)
    last = max(_crossings(costs, ours, window_h, 2 * max(fitting, 1.0)), default=None)
    return float(max(2, ceil(min(fitting, _MOST_PER_H * window_h) if last is None else 1.25 * last)))


def _shade_overlap(axes: Axes, fitting: float, most: float) -> None:
    """Shade the impossible: more bursts than fit into the window one after the other."""
    if fitting < most:
        axes.axvspan(fitting, most, color=INK, alpha=0.06, linewidth=0)
        told = "shaded: they would overlap"
        axes.text(1, 1.015, told, transform=axes.transAxes, fontsize=8.5, alpha=0.8, ha="right", va="bottom")


def _set_cost(axes: Axes, usd: Sequence[float], label: str) -> None:
    some = [amount for amount in usd if amount > 0]
    if some and len(some) == len(usd) and max(some) > _LOGARITHMIC_FROM * min(some):
        ticks_1_2_5(axes)
    else:
        axes.set_ylim(0, 1.1 * max(some, default=1.0))
    axes.set_ylabel(label)
    _grid(axes)


def _grid(axes: Axes) -> None:
    axes.grid(color=INK, alpha=0.12, linewidth=0.6)
    axes.spines["right"].set_visible(False)
