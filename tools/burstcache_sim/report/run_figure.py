"""The figure of a run: requests, tier shares, lanes of running caches, and cumulative bills.

Every mark is a simulated count or bill. Nothing is drawn from an assumed distribution.

Source:
    Thesis, figures 5.3 to 5.14 (lanes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.comparison import OURS
from burstcache_sim.report.drawing import INK, LINE_COLOURS, TIER_COLOURS, TIER_NAMES, drawing, head, new_figure
from burstcache_sim.report.labels import Label, label_ends
from burstcache_sim.report.lanes import Strip, draw_strip, strip_of_offline, strip_of_plan, strip_of_run
from burstcache_sim.report.timescale import TimeUnit, step_s, unit_for
from burstcache_terminal.text import count_text, duration_text, number_text

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from burstcache_sim.latency import LatencySummary
    from burstcache_sim.optimum.plans import Plan
    from burstcache_sim.policies.offline import OfflineResult
    from burstcache_sim.report.money import Account, Money
    from burstcache_sim.world.result import RunResult

    Times = NDArray[np.int64]

_WIDTH_IN, _LEFT_IN, _RIGHT_IN = 9.0, 0.95, 1.75
_HEAD_IN, _FOOT_IN, _GAP_IN = 1.0, 0.55, 0.14
_COUNTS_IN, _SHARES_IN, _STRIP_IN, _MONEY_IN = 0.7, 1.2, 0.36, 1.5
_BUCKETS, _TICKS = 60, 12  # maximum numbers of time buckets and ticks
_COUNTED = ((1_000_000, "million"), (1_000, "thousand"), (1, "requests"))  # units that keep the axis labels short
_STACKED = "RLS"  # tiers from bottom to top
_NAMES = {OURS: "Burstcache", "s3-only": "S3 alone"}
_NAMES_X = 1.02  # left edge of names, in plot widths


@dataclass(frozen=True, slots=True)
class Shares:
    """Requests per tier and time bucket, in rows for Redis, cache functions and S3."""

    edges_us: Times  # bucket boundaries since the start of the picture
    served: Times

    @property
    def counts(self) -> Times:
        """Requests in each bucket."""
        counts: Times = self.served.sum(axis=0)
        return counts


def run_figure(
    arrivals_us: Sequence[int] | Times,
    result: RunResult,
    *,
    optimum: Plan | None = None,
    offline: OfflineResult | None = None,
    money: Money | None = None,
    title: str = "",
    subtitle: str = "",
    usd: float | None = None,
    optimum_usd: float | None = None,
    offline_usd: float | None = None,
) -> Figure:
    """Draw a run over time.

    Args:
        arrivals_us: Arrivals of the trace, at least as many as the run served [us].
        result: The run, with tiers and spans.
        optimum: Plan to draw below the run, if any.
        offline: Runs of the offline algorithm to draw below the run, if any.
        money: Cumulative bills to draw, if any.
        title: Title of the picture.
        subtitle: Line below the title.
        usd: Cache-only cost of the run, for the lanes [USD].
        optimum_usd: Cache-only cost of the optimum [USD].
        offline_usd: Cache-only cost of the offline algorithm [USD].
    """
    import numpy as np

    times_us = np.asarray(arrivals_us, np.int64)[: result.n]
    strips = [strip_of_run(result, usd)]
    if offline is not None:
        strips.append(strip_of_offline(offline, offline_usd))
    if optimum is not None:
        strips.append(strip_of_plan(optimum, times_us, optimum_usd))
    from_us, to_us = _window_us(times_us, strips, money)
    unit, us_per_unit = unit_for(to_us - from_us), unit_for(to_us - from_us).seconds * US_PER_S
    shares = shares_of(times_us - from_us, result.tiers, step_s(to_us - from_us, most=_BUCKETS))
    with drawing():
        heights_in = [_COUNTS_IN, _SHARES_IN, *[_STRIP_IN] * len(strips), *[_MONEY_IN] * (money is not None)]
        figure, parts = _canvas(heights_in)
        _draw_counts(parts[0], shares, us_per_unit)
        _draw_shares(parts[1], shares, us_per_unit, result)
        _name_tiers(parts[0], parts[1])
        for axes, strip in zip(parts[2:], strips, strict=False):
            draw_strip(axes, strip, from_us=from_us, to_us=to_us, us_per_unit=us_per_unit)
        if money is not None:
            _draw_money(parts[-1], money, from_us, us_per_unit)
        _set_time(parts, to_us - from_us, unit)
        if money is not None:
            _name_accounts(parts[-1], money, from_us, us_per_unit)
        head(figure, title, *filter(None, [subtitle]))
    return figure


def run_summary(result: RunResult, latency: LatencySummary, without: LatencySummary, billed: str) -> str:
    """Return a run in one line: requests, share from memory, mean latency, bill.

    Args:
        result: The run.
        latency: Latencies of the run.
        without: Latencies of direct reads from S3.
        billed: The amount and its scope, as text.
    """
    return " · ".join(
        (
            count_text(result.n, "request"),
            f"{percent(result.n_lambda + result.n_redis, result.n)} % from memory",
            f"{latency.mean_ms:.3g} ms on average (S3 alone {without.mean_ms:.3g} ms)",
            billed,
        )
    )


def shares_of(since_us: Times, tiers: str, bucket_s: int) -> Shares:
    """Return the number of requests that each tier served in each bucket.

    Args:
        since_us: Sorted arrivals since the start of the picture [us].
        tiers: One tier letter per request.
        bucket_s: Length of a bucket [s].
    """
    import numpy as np

    codes = np.frombuffer(tiers.encode("ascii"), np.uint8)
    buckets = since_us // (bucket_s * US_PER_S)
    count = 1 + int(buckets[-1]) if len(buckets) else 1
    served = [np.bincount(buckets[codes == ord(tier)], minlength=count) for tier in _STACKED]
    return Shares(np.arange(count + 1, dtype=np.int64) * bucket_s * US_PER_S, np.array(served, np.int64))


def _canvas(heights_in: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, one below the other."""
    height_in = _HEAD_IN + sum(heights_in) + _GAP_IN * (len(heights_in) - 1) + _FOOT_IN
    figure = new_figure(_WIDTH_IN, height_in)
    left, width = _LEFT_IN / _WIDTH_IN, (_WIDTH_IN - _LEFT_IN - _RIGHT_IN) / _WIDTH_IN
    axes, top_in = [], height_in - _HEAD_IN
    for tall_in in heights_in:
        axes.append(figure.add_axes((left, (top_in - tall_in) / height_in, width, tall_in / height_in)))
        top_in -= tall_in + _GAP_IN
    return figure, axes


def _window_us(times_us: Times, strips: Sequence[Strip], money: Money | None) -> tuple[int, int]:
    """Return the time window to draw [us]. The window covers requests, and runs and bills that end later."""
    if not len(times_us):
        return 0, US_PER_S
    ends_us = [
        end_us for strip in strips for spans in (strip.lambda_spans_us, strip.redis_spans_us) for _, end_us in spans
    ]
    billed_us = money.at_us[-1:] if money is not None else ()
    first_us = int(times_us[0])
    from_us = 0 if first_us <= 0.05 * int(times_us[-1]) else first_us
    return from_us, max([int(times_us[-1]), from_us + US_PER_S, *ends_us, *billed_us])


def _draw_counts(axes: Axes, shares: Shares, us_per_unit: int) -> None:
    """Draw the number of requests per bucket."""
    from matplotlib.ticker import MaxNLocator

    counts = shares.counts
    unit, counted = next(unit for unit in _COUNTED if counts.max() >= 10 * unit[0] or unit[0] == 1)
    axes.stairs(counts / unit, shares.edges_us / us_per_unit, fill=True, color=INK, alpha=0.35, linewidth=0)
    bucket_s = int(shares.edges_us[1]) // US_PER_S
    axes.set_ylabel(f"{counted}\nper {duration_text(bucket_s).removeprefix('1 ')}")
    axes.set_ylim(0, max(1.0, counts.max() / unit * 1.05))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    axes.spines["right"].set_visible(False)


def _draw_shares(axes: Axes, shares: Shares, us_per_unit: int, result: RunResult) -> None:
    """Draw the tier shares of each bucket, stacked. A bucket without requests is empty."""
    import numpy as np

    counts, edges = shares.counts, shares.edges_us / us_per_unit
    served = {"S": result.n_s3, "L": result.n_lambda, "R": result.n_redis}
    floor = np.zeros(len(counts))
    for tier, row in zip(_STACKED, shares.served, strict=True):
        top = floor + 100 * row / np.maximum(counts, 1)
        label = _share(TIER_NAMES[tier], served[tier], result.n)
        axes.stairs(top, edges, baseline=floor, fill=True, color=TIER_COLOURS[tier], linewidth=0, label=label)
        floor = top
    axes.set(ylim=(0, 100), yticks=[0, 50, 100])
    axes.set_ylabel("share [%]")
    axes.spines["right"].set_visible(False)


def _name_tiers(above: Axes, axes: Axes) -> None:
    """Write a legend of the tiers above all parts, S3 first."""
    handles, labels = axes.get_legend_handles_labels()
    above.legend(
        handles=handles[::-1],
        labels=labels[::-1],
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=3,
        handlelength=1,
        columnspacing=1.6,
    )


def _draw_money(axes: Axes, money: Money, from_us: int, us_per_unit: int) -> None:
    """Draw each system's cumulative bill, interpolated between instants."""
    at = [(at_us - from_us) / us_per_unit for at_us in money.at_us]
    for account, colour in _coloured(money):
        width = 2.2 if account.name == OURS else 1.4
        axes.plot(at, account.usd, color=colour, linewidth=width, solid_capstyle="butt", clip_on=False)
    axes.set_ylim(0, 1.05 * max(max(account.usd) for account in money.accounts) or 1)
    axes.set_ylabel("billed so far\n[USD]")
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    axes.spines["right"].set_visible(False)


def _name_accounts(axes: Axes, money: Money, from_us: int, us_per_unit: int) -> None:
    """Write each system's name and last amount next to the end of its line. The axis limits must be final."""
    at = (money.at_us[-1] - from_us) / us_per_unit
    ends = []
    for account, colour in _coloured(money):
        usd = account.usd[-1]
        ends.append(Label(at, usd, f"{_NAMES.get(account.name, account.name)}  {number_text(usd, digits=3)}", colour))
    label_ends(axes, ends, x=_NAMES_X)


def _coloured(money: Money) -> list[tuple[Account, str]]:
    return list(zip(money.accounts, (INK, *LINE_COLOURS), strict=False))


def _share(name: str, n: int, of: int) -> str:
    return f"{name}  {n:,} ({percent(n, of)} %)"


def percent(n: int, of: int) -> str:
    """Return a share with one decimal. Small shares never round to 0, and large shares never round to 100."""
    share = 100 * n / of if of else 0.0
    if 0 < share < 0.1:
        return "< 0.1"
    return "> 99.9" if 99.9 < share < 100 else f"{share:.1f}"


def _set_time(parts: Sequence[Axes], span_us: int, unit: TimeUnit) -> None:
    from matplotlib.ticker import MultipleLocator

    for axes in parts:
        axes.set_xlim(0, span_us / (unit.seconds * US_PER_S))
        axes.xaxis.set_major_locator(MultipleLocator(step_s(span_us, most=_TICKS) / unit.seconds))
        axes.tick_params(axis="x", labelbottom=axes is parts[-1], length=3 if axes is parts[-1] else 0)
    parts[-1].set_xlabel(f"time [{unit.name}]")
