"""The picture of one run, drawn as the thesis's figures 5.3 to 5.14.

Above, every request's latency in the colour of its tier, over a histogram of the workload; below, what ran when: this
run, the thesis's offline algorithm, the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.latency import THESIS_LATENCIES, TierLatencies, latencies_ms, summarise
from burstcache_sim.report.drawing import INK, TIER_COLOURS, TIER_NAMES, drawing, head, new_figure, ticks_1_2_5
from burstcache_sim.report.lanes import Strip, draw_strip, strip_of_offline, strip_of_plan, strip_of_run
from burstcache_sim.report.timescale import TimeUnit, step_s, unit_for
from burstcache_terminal.text import duration_text

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from burstcache_sim.optimum.plans import Plan
    from burstcache_sim.policies.offline import OfflineResult
    from burstcache_sim.world.result import RunResult

    Times = NDArray[np.int64]

_WIDTH_IN, _PLOT_IN, _STRIP_IN, _GAP_IN = 9.0, 2.9, 0.36, 0.14
_HEAD_IN, _FOOT_IN, _LEFT_IN, _RIGHT_IN = 1.0, 0.55, 0.95, 0.75
_BUCKETS, _TICKS = 60, 12  # at most
_COUNTED = ((1_000_000, "million requests"), (1_000, "thousand requests"), (1, "requests"))  # little room for digits
_VECTOR_POINTS = 500  # more are drawn as an image inside the picture


def run_figure(
    arrivals_us: Sequence[int] | Times,
    result: RunResult,
    *,
    optimum: Plan | None = None,
    offline: OfflineResult | None = None,
    latencies: TierLatencies = THESIS_LATENCIES,
    title: str = "",
    usd: float | None = None,
    optimum_usd: float | None = None,
    offline_usd: float | None = None,
    seed: int = 1,
) -> Figure:
    """Draw a run.

    Args:
        arrivals_us: The trace's requests, at least as many as the run served [us].
        result: The run, with tiers and spans.
        optimum: A plan to draw below, or None.
        offline: The offline algorithm's runs to draw below, or None.
        latencies: What the tiers take.
        title: Of the picture.
        usd: What the run costs [USD].
        optimum_usd: What the optimum costs [USD].
        offline_usd: What the offline algorithm costs [USD].
        seed: Of the latencies' spread.
    """
    import numpy as np

    times_us = np.asarray(arrivals_us, np.int64)[: result.n]
    strips = [strip_of_run(result, usd)]
    if offline is not None:
        strips.append(strip_of_offline(offline, offline_usd))
    if optimum is not None:
        strips.append(strip_of_plan(optimum, times_us, optimum_usd))
    from_us, to_us = _window_us(times_us, strips)
    unit = unit_for(to_us - from_us)
    with drawing():
        figure, above, below = _canvas(len(strips))
        _draw_workload(above, times_us - from_us, unit, to_us - from_us)
        _draw_latencies(above, times_us - from_us, result, latencies_ms(result.tiers, latencies, seed), unit)
        for axes, strip in zip(below, strips, strict=True):
            draw_strip(axes, strip, from_us=from_us, to_us=to_us, us_per_unit=unit.seconds * US_PER_S)
        _set_time(above, below, to_us - from_us, unit)
        head(figure, title, _told(result, latencies, usd))
    return figure


def _canvas(strips: int) -> tuple[Figure, Axes, list[Axes]]:
    """Return a figure high enough for its strips, its upper axes and those of the strips."""
    height_in = _HEAD_IN + _PLOT_IN + strips * (_STRIP_IN + _GAP_IN) + _FOOT_IN
    figure = new_figure(_WIDTH_IN, height_in)

    def place(bottom_in: float, tall_in: float) -> tuple[float, float, float, float]:
        width_in = _WIDTH_IN - _LEFT_IN - _RIGHT_IN
        return _LEFT_IN / _WIDTH_IN, bottom_in / height_in, width_in / _WIDTH_IN, tall_in / height_in

    above = figure.add_axes(place(height_in - _HEAD_IN - _PLOT_IN, _PLOT_IN))
    tops_in = [height_in - _HEAD_IN - _PLOT_IN - (number + 1) * (_STRIP_IN + _GAP_IN) for number in range(strips)]
    return figure, above, [figure.add_axes(place(top_in, _STRIP_IN)) for top_in in tops_in]


def _window_us(times_us: Times, strips: Sequence[Strip]) -> tuple[int, int]:
    """Return the time that is drawn [us]: the requests, and what still runs after them."""
    if not len(times_us):
        return 0, US_PER_S
    ends_us = [
        end_us for strip in strips for spans in (strip.lambda_spans_us, strip.redis_spans_us) for _, end_us in spans
    ]
    first_us = int(times_us[0])
    from_us = 0 if first_us <= 0.05 * int(times_us[-1]) else first_us
    return from_us, max([int(times_us[-1]), from_us + US_PER_S, *ends_us])


def _draw_workload(axes: Axes, since_us: Times, unit: TimeUnit, span_us: int) -> None:
    """Draw how many requests came per bucket, on an axis of its own on the right."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    bucket_s = step_s(span_us, most=_BUCKETS)
    counts = np.bincount(since_us // (bucket_s * US_PER_S)) if len(since_us) else np.zeros(1)
    unit_of_counts, counted = next(unit for unit in _COUNTED if counts.max() >= 10 * unit[0] or unit[0] == 1)
    counts = counts / unit_of_counts
    behind = axes.twinx()
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    edges = np.arange(len(counts) + 1) * bucket_s / unit.seconds
    behind.stairs(counts, edges, fill=True, color=INK, alpha=0.13, linewidth=0)
    behind.set_ylabel(f"{counted} per {duration_text(bucket_s).removeprefix('1 ')}", alpha=0.75)
    behind.set_ylim(0, max(1.0, counts.max() * 1.6))  # the requests' points stand above most of it
    behind.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    behind.spines["left"].set_visible(False)


def _draw_latencies(
    axes: Axes, since_us: Times, result: RunResult, drawn_ms: NDArray[np.float64], unit: TimeUnit
) -> None:
    import numpy as np

    codes = np.frombuffer(result.tiers.encode("ascii"), np.uint8)
    served = {"S": result.n_s3, "L": result.n_lambda, "R": result.n_redis}
    size, alpha = _point(result.n)
    for tier, n in served.items():
        mine = codes == ord(tier)
        axes.plot(
            since_us[mine] / (unit.seconds * US_PER_S),
            drawn_ms[mine],
            linestyle="",
            marker="o",
            markersize=size,
            markeredgewidth=0,
            alpha=alpha,
            clip_on=False,
            color=TIER_COLOURS[tier],
            rasterized=result.n > _VECTOR_POINTS,
        )
        axes.plot([], [], "o", markersize=6, color=TIER_COLOURS[tier], label=_share(TIER_NAMES[tier], n, result.n))
    if len(drawn_ms) and drawn_ms.min() > 0 and drawn_ms.max() > 8 * drawn_ms.min():
        ticks_1_2_5(axes)
        axes.set_ylim(drawn_ms.min() / 1.3, drawn_ms.max() * 1.3)
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel("latency [ms]")
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    axes.spines["right"].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, handletextpad=0.2, columnspacing=1.6)


def _point(n: int) -> tuple[float, float]:
    """Return size [points] and opacity of a request's point."""
    if n <= 1_000:
        return 4.2, 0.9
    return (2.4, 0.7) if n <= 10_000 else (1.2, 0.5)


def _share(name: str, n: int, of: int) -> str:
    return f"{name}  {n:,} ({percent(n, of)} %)".replace(",", " ")


def percent(n: int, of: int) -> str:
    """Return a share with one decimal; a few of many are not shown as 0, nor all but a few as 100."""
    share = 100 * n / of if of else 0.0
    if 0 < share < 0.1:
        return "< 0.1"
    return "> 99.9" if 99.9 < share < 100 else f"{share:.1f}"


def _set_time(above: Axes, below: Sequence[Axes], span_us: int, unit: TimeUnit) -> None:
    from matplotlib.ticker import MultipleLocator

    for axes in (above, *below):
        axes.set_xlim(0, span_us / (unit.seconds * US_PER_S))
        axes.xaxis.set_major_locator(MultipleLocator(step_s(span_us, most=_TICKS) / unit.seconds))
        axes.tick_params(axis="x", labelbottom=axes is below[-1], length=3 if axes in (above, below[-1]) else 0)
    below[-1].set_xlabel(f"time [{unit.name}]")


def _told(result: RunResult, latencies: TierLatencies, usd: float | None) -> str:
    found = summarise(result.n_s3, result.n_lambda, result.n_redis, latencies)
    parts = [
        f"{result.n:,} request{'' if result.n == 1 else 's'}".replace(",", " "),
        f"{percent(result.n_lambda + result.n_redis, result.n)} % from memory",
        f"latency {found.mean_ms:.3g} ms on average, {found.p99_ms:.3g} ms at the 99th percentile",
    ]
    return " · ".join(parts if usd is None else [*parts, f"{usd:.4g} USD"])
