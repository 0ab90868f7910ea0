"""Strips of time: what runs when, one lane per tier."""

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
_COLUMNS = 2_000  # more edges are drawn in this many columns: no picture is wider
_VECTOR_LINES = 300  # more are drawn as an image inside the picture
_LEAST_LAMBDA_US, _LEAST_REDIS_US = 5 * US_PER_S, 60 * US_PER_S  # the least that the optimum pays for


@dataclass(frozen=True, slots=True)
class Strip:
    """What one system runs [us], and the instants that S3 serves by choice."""

    name: str
    lambda_spans_us: Sequence[Span]
    redis_spans_us: Sequence[Span]
    missed_us: Sequence[int] = ()
    usd: float | None = None


def strip_of_run(result: RunResult, usd: float | None) -> Strip:
    """Return what a simulated run kept running."""
    return Strip("This run", result.lambda_spans_us, result.redis_spans_us, usd=usd)


def strip_of_offline(offline: OfflineResult, usd: float | None) -> Strip:
    """Return what the thesis's offline algorithm keeps running."""
    return Strip("Offline", offline.lambda_runs_us, offline.redis_runs_us, usd=usd)


def strip_of_plan(plan: Plan, arrivals_us: Sequence[int] | NDArray[np.int64], usd: float | None) -> Strip:
    """Return an optimal plan, each span as long as it is paid for."""
    return Strip(
        "Optimum",
        [(begin, max(end, begin + _LEAST_LAMBDA_US)) for begin, end in plan.lambda_spans_us],
        [(begin, max(end, begin + _LEAST_REDIS_US)) for begin, end in plan.redis_spans_us],
        [int(arrivals_us[position]) for position in plan.missed],
        usd,
    )


def draw_strip(axes: Axes, strip: Strip, *, from_us: int, to_us: int, us_per_unit: int) -> None:
    """Draw a strip: Lambda above, Redis below; the height shows how many run at once."""
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
    """Return how many of the spans run: instants [us], and the number from each instant on.

    With very many edges the time is cut into columns, each with its largest number.
    """
    import numpy as np

    begins, ends = np.asarray(spans_us, np.int64).reshape(-1, 2).clip(from_us, to_us).T
    edges, changes = np.concatenate([begins, ends]), np.repeat([1, -1], len(begins))
    order = np.lexsort((changes, edges))  # what ends at an instant makes room for what begins at it
    edges, counts = edges[order], np.cumsum(changes[order])
    if len(edges) <= _COLUMNS:
        return edges, counts
    columns = np.linspace(from_us, to_us, _COLUMNS + 1).astype(np.int64)[:-1]
    first = np.searchsorted(edges, columns)
    most = np.maximum.reduceat(counts, np.minimum(first, len(counts) - 1))
    is_empty = np.diff(np.append(first, len(edges))) == 0
    before = np.where(first > 0, counts[first - 1], 0)  # what runs when a column begins
    return columns, np.where(is_empty, before, np.maximum(most, before))


def _draw_lane(
    axes: Axes, spans_us: Sequence[Span], colour: str, floor: float, window_us: Span, us_per_unit: int
) -> int:
    """Draw one tier's lane of height 0.92; return the largest number that ran at once."""
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
    # The thin edge keeps a run visible that is narrower than the picture's finest line.
    axes.add_collection(PolyCollection(list(corners), facecolor=colour, edgecolor=colour, linewidth=0.4), autolim=False)
    return most


def _note(axes: Axes, x: float, y: float, text: str, **how: Any) -> None:
    """Write next to the strip: x in widths of the axes, y in lanes."""
    style = {"fontsize": 9, "va": "center", **how}
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), **style)
