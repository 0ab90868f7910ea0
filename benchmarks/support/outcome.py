"""What a benchmark leaves: a picture, and for the dashboard's page its progress and a table as well."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from burstcache_sim.report.drawing import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, PICTURE = "table.json", "picture.png"


@dataclass(frozen=True, slots=True)
class Table:
    """A table with published values next to ours, as the page shows it.

    Attributes:
        columns: Their headings.
        words: How many of the first columns are words; all others are numbers.
        rows: Cells as text.
        note: What a reader has to know of the figures.
    """

    columns: Sequence[str]
    words: int
    rows: Sequence[Sequence[str]]
    note: str

    def as_json(self) -> str:
        """Return it as the page takes it."""
        columns = [{"name": name, "number": place >= self.words} for place, name in enumerate(self.columns)]
        return json.dumps({"columns": columns, "rows": self.rows, "note": self.note})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add where the picture is drawn, and where all that the page shows is left."""
    parser.add_argument("image", type=Path, nargs="?", help="PNG to draw")
    parser.add_argument(
        "--page", type=Path, metavar="DIR", help=f"leave {TABLE} and {PICTURE} there, and tell of each step on stderr"
    )


class Progress:
    """Counts a benchmark's steps; each is a line `3/26 what has been done` on standard error, if anybody listens."""

    def __init__(self, steps: int, *, is_printed: bool) -> None:
        self._steps, self._done, self._is_printed = steps, 0, is_printed

    def step(self, what: str) -> None:
        """Count one more."""
        self._done += 1
        if self._is_printed:
            print(f"{self._done}/{self._steps} {what}", file=sys.stderr, flush=True)


def leave(arguments: argparse.Namespace, table: Table, figure_of: Callable[[], Figure]) -> None:
    """Write what the options ask for."""
    if arguments.page:
        (arguments.page / TABLE).write_text(table.as_json())
    if images := [each for each in (arguments.image, arguments.page and arguments.page / PICTURE) if each]:
        with drawing():
            figure = figure_of()
            for image in images:
                figure.savefig(image, dpi=150, facecolor="white", metadata={"Software": None})
