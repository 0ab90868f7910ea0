"""Lanes of a run over time: the spans in which cache functions and nodes run, one lane per tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.core.parameters import US_PER_S
from burstcache_sim.report.drawing import INK, TIER_COLOURS

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from burstcache_sim.optimum.plans import Plan
    from burstcache_sim.policies.offline import OfflineResult
    from burstcache_sim.world.result import RunResult

Span = tuple[int, int]
_COLUMNS = 2_000  # more edges than this are merged, because no picture has more pixel columns
_VECTOR_LINES = 300  # more lines than this are drawn as a bitmap inside the picture
_LEAST_LAMBDA_US, _LEAST_REDIS_US = 5 * US_PER_S, 60 * US_PER_S  # minimum billed runs in the optimum


@dataclass(frozen=True, slots=True)
class Strip:
    """One system's runs of cache functions and nodes [us], and the requests deliberately left to S3."""

    name: str
    lambda_spans_us: Sequence[Span]
    redis_spans_us: Sequence[Span]
    missed_us: Sequence[int] = ()
    usd: float | None = None


def strip_of_run(result: RunResult, usd: float | None) -> Strip:
    """Return the strip of a simulated run."""
    return Strip("This run", result.lambda_spans_us, result.redis_spans_us, usd=usd)


def strip_of_offline(offline: OfflineResult, usd: float | None) -> Strip:
    """Return the strip of the thesis's offline algorithm."""
    return Strip("Offline", offline.lambda_runs_us, offline.redis_runs_us, usd=usd)


def strip_of_plan(plan: Plan, arrivals_us: Sequence[int] | NDArray[np.int64], usd: float | None) -> Strip:
    """Return the strip of an optimal plan, with spans extended to their billed length."""
    return Strip(
        "Optimum",
        [(begin, max(end, begin + _LEAST_LAMBDA_US)) for begin, end in plan.lambda_spans_us],
        [(begin, max(end, begin + _LEAST_REDIS_US)) for begin, end in plan.redis_spans_us],
        [int(arrivals_us[position]) for position in plan.missed],
        usd,
    )


def draw_strip(axes: Axes, strip: Strip, *, from_us: int, to_us: int, us_per_unit: int) -> None:
    """Draw a strip, with Lambda above Redis. Heights show the number of concurrent runs."""
    axes.set(ylim=(0, 2), yticks=[])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.axhspan(0, 2, color=INK, alpha=0.05, linewidth=0)
    for tier, floor, spans_us in (("L", 1.04, strip.lambda_spans_us), ("R", 0.04, strip.redis_spans_us)):
        most = _draw_lane(axes, spans_us, TIER_COLOURS[tier], floor, (from_us, to_us), us_per_unit)
        if most > 1:
            _note(axes, 1.006, floor + 0.46, f"≤ {most}", ha="left")
    if strip.missed_us:
        times = [(at_us - from_us) / us_per_unit for at_us in strip.missed_us]
        axes.vlines(times, 0, 2, color=TIER_COLOURS["S"], linewidth=0.6, rasterized=len(times) > _VECTOR_LINES)
    _note(axes, -0.008, 1.42 if strip.usd is not None else 1.0, strip.name, ha="right")
    if strip.usd is not None:
        _note(axes, -0.008, 0.5, f"{strip.usd:.3g} USD", ha="right", alpha=0.75, fontsize=8)


def running(spans_us: Sequence[Span], from_us: int, to_us: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of concurrent spans over time: instants [us], and the count from each instant on.

    More than `_COLUMNS` edges are merged into columns of time, each with its largest count.
    """
    import numpy as np

    begins, ends = np.asarray(spans_us, np.int64).reshape(-1, 2).clip(from_us, to_us).T
    edges, changes = np.concatenate([begins, ends]), np.repeat([1, -1], len(begins))
    order = np.lexsort((changes, edges))  # at the same instant, ends come before starts
    edges, counts = edges[order], np.cumsum(changes[order])
    if len(edges) <= _COLUMNS:
        return edges, counts
    columns = np.linspace(from_us, to_us, _COLUMNS + 1).astype(np.int64)[:-1]
    first = np.searchsorted(edges, columns)
    most = np.maximum.reduceat(counts, np.minimum(first, len(counts) - 1))
    is_empty = np.diff(np.append(first, len(edges))) == 0
    before = np.where(first > 0, counts[first - 1], 0)  # count at the start of each column
    return columns, np.where(is_empty, before, np.maximum(most, before))


def _draw_lane(
    axes: Axes, spans_us: Sequence[Span], colour: str, floor: float, window_us: Span, us_per_unit: int
) -> int:
    """Draw one tier's lane with a height of 0.92, and return its largest count."""
    if not spans_us:
        return 0
    import numpy as np
    from matplotlib.collections import PolyCollection

    at_us, counts = running(spans_us, *window_us)
    most = int(counts.max())
    edges = (np.append(at_us, window_us[1]) - window_us[0]) / us_per_unit
    is_shown = counts > 0
    left, right = edges[:-1][is_shown], edges[1:][is_shown]
    bottom, top = np.full(len(left), floor), floor + 0.92 * counts[is_shown] / max(most, 1)
    corners = np.stack([left, bottom, left, top, right, top, right, bottom], axis=1).reshape(-1, 4, 2)
    # The thin edge keeps very short runs visible.
    axes.add_collection(PolyCollection(list(corners), facecolor=colour, edgecolor=colour, linewidth=0.4), autolim=False)
    return most


def _note(axes: Axes, x: float, y: float, text: str, **how: Any) -> None:
    """Write a note next to the strip: x in axes widths, y in lanes."""
    style = {"fontsize": 9, "va": "center", **how}
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), **style)
