"""The map figure: a panel per request rate and hit value, and a cell per load, coloured by Burstcache's outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from burstcache_sim.report.drawing import INK, drawing, head, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of a win, a tie and a loss. Without colour, bold letters still mark wins.
COLOURS = {"wins": "#8fc9b0", "ties": "#e4e4df", "loses": "#e8a58c"}
_SIZE_IN = (9.0, 7.8)
_LEFT, _BOTTOM, _WIDTH, _HEIGHT, _GAP = 0.1, 0.07, 0.87, 0.75, 0.045

Field = tuple[str, str]  # Burstcache's outcome, letter of the best buy


def map_figure(
    panels: Mapping[tuple[float, float], Sequence[Sequence[Field]]],
    *,
    columns: Sequence[str],
    rows: Sequence[float],
    panel_columns: Sequence[float],
    panel_rows: Sequence[float],
    title: str,
    lines: Sequence[str],
) -> Figure:
    """Draw a map as a grid of panels.

    Args:
        panels: Cell rows from bottom to top, keyed by requests per second and hit value.
        columns: Labels of the columns, such as a working set [GB].
        rows: Share of the day with requests (0 to 1).
        panel_columns: Requests per second.
        panel_rows: Hit values [USD per million].
        title: Title of the picture.
        lines: Subtitle lines.
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
                axes.set_title(f"{plain(per_s)}/s, {plain(value)} USD per million hits", fontsize=8.5, pad=3)
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


def _panel(axes: Axes, fields: Sequence[Sequence[Field]], columns: Sequence[str], rows: Sequence[float]) -> None:
    from matplotlib.patches import Rectangle

    for y, row in enumerate(fields):
        for x, (outcome, letter) in enumerate(row):
            square = Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=COLOURS[outcome], edgecolor="white", linewidth=1)
            axes.add_patch(square)
            weight = "bold" if outcome == "wins" else "normal"
            axes.text(x, y, letter, ha="center", va="center", fontsize=7, color=INK, fontweight=weight)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_xticks(range(len(columns)), list(columns), fontsize=7)
    axes.set_yticks(range(len(rows)), [plain(100 * duty) for duty in rows], fontsize=7)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
