"""Drawing of all figures: colours, sizes, and deterministic output as SVG or PNG."""

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

# Colour-blind safe, with a contrast of at least 3:1 on white and on a page's dark background. Text is INK.
TIER_COLOURS = {"S": "#7a7f87", "L": "#cf7d00", "R": "#2f7abf"}
TIER_NAMES = {"S": "S3", "L": "Lambda", "R": "Redis"}
LINE_COLOURS = ("#0f8b6d", "#b0457b", "#8c6d31", "#5b5fc7", "#3fa0b0", "#a04a3a", "#6d8f1f", "#7d5a9e")
INK = "#1f2328"  # colour of text and axes; pages replace it with their own
FORMATS = (".svg", ".png")
_DPI = 150
_TITLE, _LINE = 70, 120  # characters that fit into 9 inches
_SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",  # bundled with matplotlib, so identical on every machine
    "font.size": 9.0,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "burstcache",
    "text.color": INK,
    "text.parse_math": False,  # no mathtext, because labels contain dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
}


def plain(value: float) -> str:
    """Format a number in its shortest form, with an exponent only below 1e-5: `0.00005`, `5e-7`."""
    if 0 < value < 1e-5:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.10f}".rstrip("0").rstrip(".")


@contextmanager
def drawing() -> Iterator[None]:
    """Apply this project's matplotlib style within a `with` block."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # the user's matplotlibrc must not affect the output
        mpl.rcParams.update(_SETTINGS)
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return an empty figure, independent of pyplot's windows and global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def head(figure: Figure, title: str, *lines: str) -> None:
    """Add a title and subtitle lines in the figure's upper left corner, truncated to the figure's width."""
    width_in, height_in = figure.get_size_inches()
    left, top_in = 0.12 / width_in, height_in - 0.12
    figure.text(left, top_in / height_in, _cut(title, _TITLE), fontsize=12, fontweight="bold", va="top")
    for number, line in enumerate(lines):
        y = (top_in - 0.30 - 0.2 * number) / height_in
        figure.text(left, y, _cut(line, _LINE), fontsize=9, alpha=0.8, va="top")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def ticks_1_2_5(axes: Axes) -> None:
    """Make the y axis logarithmic, with ticks at 1, 2 and 5 in each decade."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: plain(value))
    axes.yaxis.set_minor_formatter(NullFormatter())


def image_bytes(figure: Figure, suffix: str = ".svg") -> bytes:
    """Render a figure as SVG or PNG, without a timestamp."""
    buffer = io.BytesIO()
    with drawing(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # for names in scripts that the font lacks
        if suffix == ".svg":
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        else:
            figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def write_image(figure: Figure, path: Path) -> None:
    """Save a figure as SVG or PNG, depending on the file's suffix.

    Raises:
        InvalidSettingError: The file has another suffix or cannot be written.
    """
    if path.suffix not in FORMATS:
        raise InvalidSettingError(f"{path}: expected a name that ends in {' or '.join(FORMATS)}")
    try:
        path.write_bytes(image_bytes(figure, path.suffix))
    except OSError as error:
        raise InvalidSettingError(f"{path}: expected a file that can be written ({error.strerror})") from error
