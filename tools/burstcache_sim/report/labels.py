"""Labels of the points in a figure, placed without overlaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from burstcache_sim.report.drawing import INK

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Places = NDArray[np.float64]  # rows of x and y

Point = tuple[float, float]  # in data coordinates
_FAR_RIGHT = 0.75  # share of the width beyond which points are labelled next to the plot
Box = tuple[float, float, float, float]  # left, bottom, right, top
Offset = tuple[int, int, str]
_OFFSETS_PT: tuple[Offset, ...] = (
    (8, 0, "left"),
    (0, 12, "center"),
    (0, -12, "center"),
    (-8, 0, "right"),
    *((side * 7, height, at) for height in (-12, 12, -24, 24) for side, at in ((1, "left"), (-1, "right"))),
    (0, 26, "center"),
    (0, -26, "center"),
)
_WIDE_PT, _HIGH_PT = 4.8, 11.0  # width of a character and height of a line, at a font size of 8.5
_NEAR_PT = 12  # labels with a larger vertical offset get a leader line
_LEADER = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
_GROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}  # fades lines behind a label


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a point, in data coordinates."""

    x: float
    y: float
    text: str
    colour: str  # of the leader line


def label_ends(axes: Axes, labels: Sequence[Label], *, x: float) -> None:
    """Write labels at `x`, close to their points' heights and without overlaps, each with a leader line.

    Args:
        axes: Axes with final limits.
        labels: Labels to write.
        x: Left edge of the labels, in axes widths.
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
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": label.colour, "linewidth": 1.2, "shrinkB": 3, "relpos": (0, 0.5)},
        )


def spread(heights: Sequence[float], *, least: float, most: float) -> list[float]:
    """Return ascending heights spread at least `least` apart, and below `most` if there is room."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + least) if placed else height)
    ceiling = max(most, least * (len(placed) - 1))
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - least
    return placed


def label_points(axes: Axes, points: Mapping[str, Point], *, x: float) -> None:
    """Label points that are far to the right at `x`, and all other points nearby with the least overlap.

    Args:
        axes: Axes with final limits.
        points: Points by name.
        x: Left edge of the labels next to the plot, in axes widths.
    """
    low, high = axes.get_xlim()
    far = low + _FAR_RIGHT * (high - low)
    right = [Label(*point, name, INK) for name, point in points.items() if point[0] >= far]
    label_ends(axes, right, x=x)
    _label_nearby(axes, [(name, point) for name, point in points.items() if point[0] < far])


def _label_nearby(axes: Axes, texts: Sequence[tuple[str, Point]]) -> None:
    """Write each label close to its point, inside the plot, where it overlaps the fewest lines and labels."""
    import numpy as np

    scale = 72 / axes.figure.dpi
    left, bottom, right, top = (float(side) * scale for side in axes.get_window_extent().extents)
    plot_pt = (left, bottom, right, top)
    taken = _drawn_pt(axes)
    for text, point in texts:
        at_pt = axes.transData.transform(point) * scale
        boxes = [_box(at_pt, text, offset) for offset in _OFFSETS_PT]
        _, chosen = min((_overlap(box, plot_pt, taken), i) for i, box in enumerate(boxes))
        dx, dy, side = _OFFSETS_PT[chosen]
        axes.annotate(
            text,
            point,
            (dx, dy),
            textcoords="offset points",
            fontsize=8.5,
            ha=side,
            va="center",
            bbox=_GROUND,
            arrowprops=_LEADER if abs(dy) > _NEAR_PT else None,
        )
        left, bottom, right, top = boxes[chosen]
        taken = np.concatenate([taken, np.linspace((left, (bottom + top) / 2), (right, (bottom + top) / 2), 12)])


def _box(at_pt: NDArray[np.float64], text: str, offset: Offset) -> Box:
    """Return the bounding box of a label at this offset from a point [pt]."""
    dx, dy, side = offset
    wide_pt = _WIDE_PT * len(text)
    left = float(at_pt[0]) + dx - {"left": 0.0, "center": wide_pt / 2, "right": wide_pt}[side]
    bottom = float(at_pt[1]) + dy - _HIGH_PT / 2
    return left, bottom, left + wide_pt, bottom + _HIGH_PT


def _overlap(box: Box, plot_pt: Box, taken: Places) -> tuple[bool, int]:
    """Return whether a box extends beyond the plot, and the number of occupied positions inside the box."""
    import numpy as np

    left, bottom, right, top = box
    leaves = left < plot_pt[0] or bottom < plot_pt[1] or right > plot_pt[2] or top > plot_pt[3]
    x, y = taken.T
    return leaves, int(np.count_nonzero((x > left) & (x < right) & (y > bottom) & (y < top)))


def _drawn_pt(axes: Axes) -> Places:
    """Return densely spaced positions along all lines and along the horizontal axis [pt]."""
    import numpy as np

    pt_per_pixel = 72 / axes.figure.dpi
    bottom = axes.get_window_extent()
    places = [np.linspace((bottom.x0, bottom.y0), (bottom.x1, bottom.y0), 200) * pt_per_pixel]
    for line in axes.get_lines():
        at = axes.transData.transform(np.asarray(line.get_xydata(), float).reshape(-1, 2)) * pt_per_pixel
        places += [at, *(np.linspace(one, next_, 60) for one, next_ in pairwise(at))]
    return np.concatenate(places)
