"""What all pictures share: colours, sizes, and how a figure becomes bytes. The same figure gives the same bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Distinguishable for the colour-blind; at least 3 : 1 against white and against a page's dark ground. Text is INK.
TIER_COLOURS = {"S": "#7a7f87", "L": "#cf7d00", "R": "#2f7abf"}
TIER_NAMES = {"S": "S3", "L": "Lambda", "R": "Redis"}
LINE_COLOURS = ("#0f8b6d", "#b0457b", "#8c6d31", "#5b5fc7", "#3fa0b0", "#a04a3a", "#6d8f1f", "#7d5a9e")
INK = "#1f2328"  # text and axes; a page replaces it by its own colour of text
FORMATS = (".svg", ".png")
_DPI = 150
_TITLE, _LINE = 70, 120  # characters that fit a figure of 9 inches
_SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",  # part of matplotlib: the same everywhere
    "font.size": 9.0,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "burstcache",
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign is a dollar sign
    "xtick.color": INK,
    "ytick.color": INK,
}


def plain(value: float) -> str:
    """Return a number with few digits, with an exponent only where zeros would need much room: `0.00005`, `5e-7`."""
    if 0 < value < 1e-5:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.10f}".rstrip("0").rstrip(".")


@contextmanager
def drawing() -> Iterator[None]:
    """Set matplotlib up as for all our pictures."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own settings do not change our bytes
        mpl.rcParams.update(_SETTINGS)
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return an empty figure without a window or global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def head(figure: Figure, title: str, *lines: str) -> None:
    """Write a title and lines below it into the figure's upper left corner, cut at the figure's edge."""
    width_in, height_in = figure.get_size_inches()
    left, top_in = 0.12 / width_in, height_in - 0.12
    figure.text(left, top_in / height_in, _cut(title, _TITLE), fontsize=12, fontweight="bold", va="top")
    for number, line in enumerate(lines):
        y = (top_in - 0.30 - 0.2 * number) / height_in
        figure.text(left, y, _cut(line, _LINE), fontsize=9, alpha=0.8, va="top")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def ticks_1_2_5(axes: Axes) -> None:
    """Make the y axis logarithmic, with short numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: plain(value))
    axes.yaxis.set_minor_formatter(NullFormatter())


def image_bytes(figure: Figure, suffix: str = ".svg") -> bytes:
    """Return a figure as SVG or PNG, without a date."""
    buffer = io.BytesIO()
    with drawing(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a name in a script the font lacks
        if suffix == ".svg":
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        else:
            figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def write_image(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PNG, by the file's name.

    Raises:
        InvalidSettingError: The file is of another kind or cannot be written.
    """
    if path.suffix not in FORMATS:
        raise InvalidSettingError(f"{path}: expected a name that ends in {' or '.join(FORMATS)}")
    try:
        path.write_bytes(image_bytes(figure, path.suffix))
    except OSError as error:
        raise InvalidSettingError(f"{path}: expected a file that can be written ({error.strerror})") from error
