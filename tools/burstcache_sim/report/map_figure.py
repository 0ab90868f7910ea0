"""A picture of a map: a panel per rate and value of a hit, a field per load, its colour what Burstcache does there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from burstcache_sim.report.drawing import INK, drawing, head, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Won, tied, lost: told apart without colour by their letter, too.
COLOURS = {"wins": "#8fc9b0", "ties": "#e4e4df", "loses": "#e8a58c"}
_SIZE_IN = (9.0, 7.8)
_LEFT, _BOTTOM, _WIDTH, _HEIGHT, _GAP = 0.1, 0.07, 0.87, 0.79, 0.045

Field = tuple[str, str]  # what Burstcache does, and a letter for what is the best buy


def map_figure(
    panels: Mapping[tuple[float, float], Sequence[Sequence[Field]]],
    *,
    columns: Sequence[float],
    rows: Sequence[float],
    panel_columns: Sequence[float],
    panel_rows: Sequence[float],
    title: str,
    lines: Sequence[str],
) -> Figure:
    """Draw a map.

    Args:
        panels: By requests a second and value of a hit: rows of fields, the first row at the bottom.
        columns: Working sets [GB].
        rows: Parts of the day with requests.
        panel_columns: Requests a second.
        panel_rows: Values of a hit [USD per million].
        title: Of the picture.
        lines: Below the title.
    """
    with drawing():
        figure = new_figure(*_SIZE_IN)
        width = (_WIDTH - _GAP * (len(panel_columns) - 1)) / len(panel_columns)
        height = (_HEIGHT - _GAP * (len(panel_rows) - 1)) / len(panel_rows)
        for j, value in enumerate(panel_rows):
            for i, per_s in enumerate(panel_columns):
                place = (_LEFT + i * (width + _GAP), _BOTTOM + j * (height + _GAP), width, height)
                axes = figure.add_axes(place)
                _panel(axes, panels[per_s, value], columns, rows)
                axes.set_title(f"{plain(per_s)}/s, a hit {plain(value)} USD per million", fontsize=8.5, pad=3)
                if i == 0:
                    axes.set_ylabel("part of the day [%]", fontsize=8)
                else:
                    axes.set_yticklabels([])
                if j == 0:
                    axes.set_xlabel("working set [GB]", fontsize=8)
                else:
                    axes.set_xticklabels([])
        head(figure, title, *lines)
    return figure


def _panel(axes: Axes, fields: Sequence[Sequence[Field]], columns: Sequence[float], rows: Sequence[float]) -> None:
    from matplotlib.patches import Rectangle

    for y, row in enumerate(fields):
        for x, (outcome, letter) in enumerate(row):
            square = Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=COLOURS[outcome], edgecolor="white", linewidth=1)
            axes.add_patch(square)
            weight = "bold" if outcome == "wins" else "normal"
            axes.text(x, y, letter, ha="center", va="center", fontsize=7, color=INK, fontweight=weight)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_xticks(range(len(columns)), [plain(gb) for gb in columns], fontsize=7)
    axes.set_yticks(range(len(rows)), [plain(100 * duty) for duty in rows], fontsize=7)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
