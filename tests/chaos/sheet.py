"""A sheet of all faults: latency and tiers over time, a small picture for each."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from burstcache_sim.report.drawing import (
    INK,
    LINE_COLOURS,
    TIER_COLOURS,
    TIER_NAMES,
    drawing,
    head,
    new_figure,
    plain,
    write_image,
)
from chaos.faults import FAULTS, Fault
from chaos.load import OF_KEYS
from chaos.report import FAULT_SHADE, MOST_P99_S, TIERS
from chaos.results import Results
from chaos.run import POLICIES, Plan, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS, _WIDTH_IN, _ROW_IN, _HEAD_IN, _FOOT_IN = 3, 9.0, 1.5, 1.0, 0.45
_LATENCY_MS, _TICKS_MS = (2, 40_000), (10, 100, 1000, 10_000)
_STEP_S = 2
_AFTER_S = 20.0  # shown after the fault
_TITLE, _TEXT = 7.5, 7.0  # points
_ABOUT = (
    f"99th percentile of every {_STEP_S} s [ms], dotted: {MOST_P99_S * 1e3:.0f}; shaded: the fault, from 0 s on;",
    f"strips below: the tiers' shares of the answers, for {' and '.join(POLICIES)}",
)


def draw_sheet(results: Results, path: Path) -> None:
    """Draw the results of all faults."""
    faults = [fault for fault in FAULTS if results.runs(fault)]
    rows = ceil(len(faults) / _COLUMNS)
    height_in = _HEAD_IN + rows * _ROW_IN + _FOOT_IN
    with drawing():
        figure = new_figure(_WIDTH_IN, height_in)
        head(figure, "Each fault over time", *_ABOUT)
        edges = {"left": 0.06, "right": 0.985, "top": 1 - _HEAD_IN / height_in, "bottom": _FOOT_IN / height_in}
        grid = figure.add_gridspec(max(rows, 1), _COLUMNS, hspace=0.4, wspace=0.12, **edges)
        for number, fault in enumerate(faults):
            heights = (5, *(1 for _ in POLICIES))
            cell = grid[divmod(number, _COLUMNS)].subgridspec(len(heights), 1, height_ratios=heights, hspace=0.15)
            panels = [figure.add_subplot(cell[row, 0]) for row in range(len(heights))]
            _draw_fault(fault, results.runs(fault), results.plan, panels)
            panels[0].tick_params(labelleft=number % _COLUMNS == 0)
            panels[-1].tick_params(labelbottom=number + _COLUMNS >= len(faults))
        if faults:
            _legend(figure.axes[0], height_in)
        write_image(figure, path)


def _draw_fault(fault: Fault, runs: Sequence[Run], plan: Plan, panels: Sequence[Axes]) -> None:
    latency, *strips = panels
    latency.set_title(fault.name, loc="left", fontsize=_TITLE, fontweight="bold", pad=3)
    latency.set_yscale("log")
    latency.set_ylim(*_LATENCY_MS)
    latency.set_yticks(_TICKS_MS, [plain(each) for each in _TICKS_MS], fontsize=_TEXT)
    latency.axhline(MOST_P99_S * 1e3, color=INK, linewidth=0.8, linestyle=":")
    for axes in panels:
        axes.minorticks_off()
        axes.set_xlim(-plan.before_s, plan.fault_s + _AFTER_S)
        axes.set_xticks(np.linspace(0, plan.fault_s, 4))
        axes.tick_params(labelbottom=False, labelsize=_TEXT, length=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} s")
        axes.axvspan(0, plan.fault_s, **FAULT_SHADE)
    for strip in strips:
        strip.set_ylim(0, 1)
        strip.set_yticks(())
    for run in runs:
        number = list(POLICIES).index(run.policy)
        _draw_run(run, latency, strips[number], LINE_COLOURS[number])


def _draw_run(run: Run, latency: Axes, strip: Axes, colour: str) -> None:
    reads = [each for each in run.reads if each.way in OF_KEYS]
    steps = np.array([floor((each.due_s - run.fault_began_s) / _STEP_S) for each in reads])
    times_ms = np.array([each.latency_s * 1e3 for each in reads])
    tiers = np.array([each.tier for each in reads])
    found = np.unique(steps)
    middles_s = (found + 0.5) * _STEP_S
    p99_ms = [np.percentile(times_ms[steps == step], 99) for step in found]
    latency.plot(middles_s, p99_ms, color=colour, linewidth=1.1, label=run.policy)
    failed = np.array([each.is_failed for each in reads])
    if failed.any():
        at_s = np.unique(steps[failed]) * _STEP_S + _STEP_S / 2
        latency.plot(at_s, [_LATENCY_MS[1] / 1.6] * len(at_s), "x", color=colour, markersize=3)
    shares = [[np.mean(tiers[steps == step] == tier) for step in found] for tier in TIERS]
    colours = [TIER_COLOURS[letter] for letter in TIERS.values()]
    strip.stackplot(middles_s, shares, colors=colours, step="mid", linewidth=0)
    strip.set_ylabel(run.policy[0], fontsize=_TEXT, rotation=0, labelpad=5, va="center", color=colour)


def _legend(axes: Axes, height_in: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [Line2D((), (), color=LINE_COLOURS[number], label=policy) for number, policy in enumerate(POLICIES)]
    failures = Line2D((), (), color=INK, marker="x", linestyle="", markersize=4, label="reads failed")
    tiers = [Patch(color=TIER_COLOURS[letter], label=TIER_NAMES[letter]) for letter in TIERS.values()]
    axes.figure.legend(
        handles=[*lines, failures, *tiers],
        fontsize=8,
        loc="upper right",
        bbox_to_anchor=(0.99, 1 - 0.08 / height_in),
        ncols=6,
    )
