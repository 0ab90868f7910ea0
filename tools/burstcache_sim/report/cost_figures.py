"""Figures of cost against the share served from memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from burstcache_sim.report.drawing import INK, LINE_COLOURS, drawing, head, new_figure, ticks_1_2_5
from burstcache_sim.report.labels import Point, label_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARETO_NOTE = (
    "Lower and further to the right is better. The cost axis is logarithmic if amounts are far apart: equal distances"
    " are equal factors. A system without a knob is one point."
)
_SIZE_IN = (9.0, 4.9)
_PLACE = (0.1, 0.12, 0.64, 0.64)  # room for labels on the right and a legend of two rows above
_NAMES_X = 1.03  # left edge of the labels, in widths of the plot
_LOGARITHMIC_FROM = 30.0  # larger ratios of highest to lowest cost get a logarithmic axis


def pareto_figure(
    fronts: Mapping[str, Sequence[Point]],
    *,
    points: Mapping[str, Point] | None = None,
    title: str = "Cost against the share served from memory",
    subtitle: str = "",
    cost_label: str = "cost [USD]",
) -> Figure:
    """Plot cost against the share from memory for each knob setting.

    Args:
        fronts: Share from memory [%] and cost [USD] of each knob setting, per policy, in any order.
        points: Systems without a knob, labelled by name.
        title: Title of the picture.
        subtitle: Line below the title.
        cost_label: Label of the cost axis.
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
            axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=2, columnspacing=1.6)
        head(figure, title, *filter(None, [subtitle]))
        label_points(axes, singles, x=_NAMES_X)
    return figure


def _set_cost(axes: Axes, usd: Sequence[float], label: str) -> None:
    positive = [amount for amount in usd if amount > 0]
    if positive and len(positive) == len(usd) and max(positive) > _LOGARITHMIC_FROM * min(positive):
        ticks_1_2_5(axes)
    else:
        axes.set_ylim(0, 1.1 * max(positive, default=1.0))
    axes.set_ylabel(label)
    _grid(axes)


def _grid(axes: Axes) -> None:
    axes.grid(color=INK, alpha=0.12, linewidth=0.6)
    axes.spines["right"].set_visible(False)
