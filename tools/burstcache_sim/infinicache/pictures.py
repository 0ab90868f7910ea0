"""Pictures like InfiniCache's figures 13, 14 and 17."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from burstcache_sim.infinicache import published
from burstcache_sim.infinicache.formulas import hour, overtakes_gets_per_h
from burstcache_sim.infinicache.replays import Replay, hour_usd
from burstcache_sim.report.drawing import LINE_COLOURS, drawing, head, new_figure, ticks_1_2_5, write_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SOURCE = "synthetic trace with the statistics of Wang 2020, table 1"


def infinicache_pictures(replays: Sequence[Replay], folder: Path) -> list[Path]:
    """Write the pictures and return their files."""
    figures = {
        "figure-13a.png": costs_figure(replays),
        "figure-13.png": parts_figure(replays),
        "figure-14.png": faults_figure(replays),
        "figure-17.png": rates_figure(),
    }
    for name, figure in figures.items():
        write_image(figure, folder / name)
    return [folder / name for name in figures]


def costs_figure(replays: Sequence[Replay]) -> Figure:
    """Plot the cumulative cost over 50 hours."""
    with drawing():
        figure = new_figure(9, 4)
        head(figure, "Accumulated cost, as figure 13(a)", _SOURCE)
        axes = figure.add_axes((0.09, 0.14, 0.88, 0.66))
        hours = range(1, published.HOURS + 1)
        usd_per_h = float(published.ELASTICACHE_USD_PER_H)
        axes.plot(hours, [usd_per_h * hour for hour in hours], color="black", label="ElastiCache")
        for one, colour in zip(replays, LINE_COLOURS, strict=False):
            usd = list(accumulate(sum(hour_usd(counts)) for counts in one.run.hours))
            axes.plot(range(1, len(usd) + 1), usd, color=colour, label=f"{one.setting.name}, {one.reclaims}")
        ticks_1_2_5(axes)
        axes.set_xlabel("hours")
        axes.set_ylabel("USD")
        axes.legend(ncols=2, fontsize=7)
    return figure


def parts_figure(replays: Sequence[Replay]) -> Figure:
    """Plot the cost of each hour, split by part."""
    with drawing():
        figure = new_figure(9, 2 * len(replays) + 0.8)
        head(figure, "Cost of each hour by part, as figure 13(b) to (d)", _SOURCE)
        for row, one in enumerate(replays):
            axes = figure.add_subplot(len(replays), 1, row + 1)
            parts = list(zip(*map(hour_usd, one.run.hours), strict=True))
            axes.stackplot(range(len(one.run.hours)), *parts, colors=LINE_COLOURS[:3])
            axes.set_ylabel("USD")
            axes.set_title(f"{one.setting.name}, {one.reclaims}", fontsize=8, loc="left")
        figure.legend(["serving", "warm-up", "backup"], loc="upper right", ncols=3, fontsize=8)
        figure.subplots_adjust(left=0.09, right=0.97, top=1 - 0.9 / figure.get_figheight(), bottom=0.06, hspace=0.5)
    return figure


def faults_figure(replays: Sequence[Replay]) -> Figure:
    """Plot the objects lost and repaired in each hour."""
    with drawing():
        figure = new_figure(9, 2 * len(replays) + 0.8)
        head(figure, "Objects repaired and lost in each hour, as figure 14", _SOURCE)
        for row, one in enumerate(replays):
            axes = figure.add_subplot(len(replays), 1, row + 1)
            hours = range(len(one.run.hours))
            axes.bar(hours, [counts.repaired_slices for counts in one.run.hours], color=LINE_COLOURS[0])
            axes.bar(hours, [counts.losses for counts in one.run.hours], color=LINE_COLOURS[5], width=0.4)
            axes.set_title(f"{one.setting.name}, {one.reclaims}", fontsize=8, loc="left")
        figure.legend(["repaired from parity", "lost, fetched again"], loc="upper right", ncols=2, fontsize=8)
        figure.subplots_adjust(left=0.09, right=0.97, top=1 - 0.9 / figure.get_figheight(), bottom=0.06, hspace=0.5)
    return figure


def rates_figure() -> Figure:
    """Plot the hourly cost by GET rate, with billing increments of 100 ms and 1 ms."""
    with drawing():
        figure = new_figure(9, 4)
        overtakes = overtakes_gets_per_h()
        head(figure, "Cost of an hour by the rate, as figure 17", f"exceeds ElastiCache above {overtakes:,.0f} GETs/h")
        axes = figure.add_axes((0.09, 0.14, 0.88, 0.66))
        rates = range(0, 400_001, 4_000)
        axes.axhline(float(published.ELASTICACHE_USD_PER_H), color="black", label="ElastiCache, cache.r5.24xlarge")
        axes.axvline(published.OVERTAKES_GETS_PER_H, color="black", ls=":", label="published: 312,000 GETs/h")
        for unit_ms, serve_ms, colour in ((100, 100, LINE_COLOURS[0]), (1, 20, LINE_COLOURS[1])):
            usd = [float(hour(Fraction(rate), serve_ms=serve_ms, billed_in_ms=unit_ms).usd) for rate in rates]
            axes.plot(rates, usd, color=colour, label=f"billed by {unit_ms} ms, {serve_ms} ms a chunk")
        axes.set_xlabel("GETs an hour")
        axes.set_ylabel("USD an hour")
        axes.legend(fontsize=8)
    return figure
