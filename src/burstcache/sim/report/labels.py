"""Names beside what they name, without covering each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from burstcache.sim.report.drawing import INK

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Places = NDArray[np.float64]  # rows of x and y

Point = tuple[float, float]  # in the data's units
_FAR_RIGHT = 0.75  # of the width: points from here on are named beside the plot
_OFFSETS_PT = (
    (8, 0, "left"),
    (0, 12, "center"),
    (0, -12, "center"),
    (-8, 0, "right"),
    (0, 26, "center"),
    (0, -26, "center"),
)


@dataclass(frozen=True, slots=True)
class Label:
    """A text for a point of a picture, whose place is in the data's units."""

    x: float
    y: float
    text: str
    colour: str


def label_ends(axes: Axes, labels: Sequence[Label], *, x: float) -> None:
    """Write texts at `x`, each as near to its own height as the others allow, with a line to what it names.

    Args:
        axes: Where; its limits are final.
        labels: What to write.
        x: Where the texts begin, in widths of the axes.
    """
    box = axes.get_window_extent()
    pt_per_pixel = 72 / axes.figure.dpi
    at_pt = [(axes.transData.transform((label.x, label.y))[1] - box.y0) * pt_per_pixel for label in labels]
    order = sorted(range(len(labels)), key=at_pt.__getitem__)
    heights_pt = spread([at_pt[i] for i in order], least=11.5, most=box.height * pt_per_pixel)
    for i, height_pt in zip(order, heights_pt, strict=True):
        label = labels[i]
        axes.annotate(
            label.text,
            xy=(label.x, label.y),
            xytext=(x, height_pt / (box.height * pt_per_pixel)),
            textcoords="axes fraction",
            color=label.colour,
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": label.colour, "linewidth": 0.6, "shrinkB": 3, "relpos": (0, 0.5)},
        )


def spread(heights: Sequence[float], *, least: float, most: float) -> list[float]:
    """Return ascending heights moved apart, at least `least` between two, none above `most` if there is room."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + least) if placed else height)
    ceiling = max(most, least * (len(placed) - 1))
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - least
    return placed


def label_points(axes: Axes, points: Mapping[str, Point], *, x: float) -> None:
    """Name each point: at `x` if it lies far on the right, else beside itself where least is in the way.

    Args:
        axes: Where; its limits are final.
        points: By their names.
        x: Where the texts beside the plot begin, in widths of the axes.
    """
    low, high = axes.get_xlim()
    far = low + _FAR_RIGHT * (high - low)
    right = [Label(*point, name, INK) for name, point in points.items() if point[0] >= far]
    label_ends(axes, right, x=x)
    taken = _drawn_pt(axes)
    for name, point in points.items():
        if point[0] < far:
            taken = _label_nearby(axes, name, point, taken)


def _label_nearby(axes: Axes, name: str, point: Point, taken: Places) -> Places:
    """Write a name right of, above, below or left of its point; return what is taken then [points]."""
    import numpy as np

    x_pt, y_pt = axes.transData.transform(point) * 72 / axes.figure.dpi
    wide_pt, high_pt = 4.6 * len(name), 11.0  # at this size of type

    def box(offset: tuple[int, int, str]) -> tuple[float, float]:
        dx, dy, side = offset
        return x_pt + dx - {"left": 0.0, "center": wide_pt / 2, "right": wide_pt}[side], y_pt + dy - high_pt / 2

    def hits(offset: tuple[int, int, str]) -> int:
        left, bottom = box(offset)
        inside = (taken[:, 0] > left) & (taken[:, 0] < left + wide_pt)
        return int(np.count_nonzero(inside & (taken[:, 1] > bottom) & (taken[:, 1] < bottom + high_pt)))

    best = min(_OFFSETS_PT, key=hits)
    axes.annotate(name, point, best[:2], textcoords="offset points", fontsize=8.5, ha=best[2], va="center")
    left, bottom = box(best)
    own = [(left + wide_pt * step / 10, bottom + high_pt / 2) for step in range(11)]
    return np.concatenate([taken, own])


def _drawn_pt(axes: Axes) -> Places:
    """Return places along all lines, close together, and along the horizontal axis [points]."""
    import numpy as np

    pt_per_pixel = 72 / axes.figure.dpi
    bottom = axes.get_window_extent()
    places = [np.linspace((bottom.x0, bottom.y0), (bottom.x1, bottom.y0), 200) * pt_per_pixel]
    for line in axes.get_lines():
        at = axes.transData.transform(np.asarray(line.get_xydata(), float).reshape(-1, 2)) * pt_per_pixel
        places += [at, *(np.linspace(one, next_, 60) for one, next_ in pairwise(at))]
    return np.concatenate(places)
