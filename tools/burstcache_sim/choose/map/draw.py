"""Drawing of a map: a table, a picture against rivals that revalidate with S3, and a picture against all rivals."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

from burstcache_sim.choose.map.cells import (
    COLUMNS,
    DUTIES,
    MEMORY_MB,
    PER_S,
    RANGED_GB,
    READERS,
    VALUES_USD_PER_MILLION,
    Buy,
    Cell,
)
from burstcache_sim.choose.map.loads import LARGE_MIB, RANGE_BYTES, Load
from burstcache_sim.report.drawing import FORMATS, plain, write_image
from burstcache_sim.report.map_figure import map_figure

_COLUMNS = (
    *("working_set_gb", "reads", "duty", "per_s", "usd_per_million_hits"),
    *("burstcache", "burstcache_bill_usd", "burstcache_usd"),
    *("coherent_rival", "coherent_bill_usd", "coherent_usd", "against_coherent"),
    *("any_rival", "any_bill_usd", "any_usd", "against_any"),
)
_KINDS = {"s3-only": "S", "s3-express": "X", "efs": "F", "cloudfront": "C"}
_LEGEND = (
    "Best buy: B Burstcache, M readers' memory, X S3 Express, N node or task, F EFS, S S3. +: behind readers' memory."
)
_LOADS = f"Objects of 100 KB by Zipf's law. {READERS} readers with {MEMORY_MB} MB of memory each, in every system."
_RANGED = (
    f"R: {RANGED_GB:g} GB in objects of {LARGE_MIB[0]} to {LARGE_MIB[1]:,} MiB by Zipf's law, read by ranges of"
    f" {RANGE_BYTES >> 20} MiB."
)
Rival = Callable[[Cell], Buy]


def coherent(cell: Cell) -> Buy:
    """Return the best of S3 and the rivals that revalidate with S3."""
    return cell.coherent


def any_rival(cell: Cell) -> Buy:
    """Return the best of all rivals."""
    return cell.any_rival


PICTURES: dict[str, tuple[Rival, str]] = {
    "map-coherent": (coherent, "Burstcache against S3 and rivals that revalidate"),
    "map-any-age": (any_rival, "Burstcache against all rivals, most without a bound on staleness"),
}


def write_map(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write the table and both pictures into a folder, and return their paths."""
    table = folder / "map.csv"
    table.write_text(table_csv(cells), encoding="utf-8")
    written = [table]
    for name, (rival, title) in PICTURES.items():
        figure = map_figure(
            panels_of(cells, rival),
            columns=["R" if by_ranges else plain(gb) for gb, by_ranges in COLUMNS],
            rows=DUTIES,
            panel_columns=PER_S,
            panel_rows=VALUES_USD_PER_MILLION,
            title=title,
            lines=[
                "Green: won by more than a tenth and half a dollar a month. Red: lost by as much. Grey: neither.",
                _LEGEND,
                _LOADS,
                _RANGED,
            ],
        )
        for suffix in FORMATS:
            path = folder / f"{name}{suffix}"
            write_image(figure, path)
            written.append(path)
    return written


def table_csv(cells: Sequence[Cell]) -> str:
    """Return the map as CSV, one row per load and hit value."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for cell in cells:
        load, ours = cell.load, cell.ours
        row = [load.working_set_gb, _reads(load), load.duty, load.per_s, cell.usd_per_million, ours.note, *_usd(ours)]
        for rival in (cell.coherent, cell.any_rival):
            row += [rival.name, *_usd(rival), cell.outcome(rival)]
        writer.writerow(row)
    return text.getvalue()


def panels_of(cells: Sequence[Cell], rival: Rival) -> dict[tuple[float, float], list[list[tuple[str, str]]]]:
    """Return the cells of a picture, grouped by requests per second and hit value."""
    by_load = {(cell.load, cell.usd_per_million): cell for cell in cells}

    def field(cell: Cell) -> tuple[str, str]:
        best = rival(cell)
        return cell.outcome(best), "B" if cell.ours.usd <= best.usd else letter_of(best.name)

    return {
        (per_s, value): [
            [field(by_load[Load(gb, duty, per_s, ranged), value]) for gb, ranged in COLUMNS] for duty in DUTIES
        ]
        for per_s in PER_S
        for value in VALUES_USD_PER_MILLION
    }


def summary_lines(cells: Sequence[Cell]) -> list[str]:
    """Return the numbers of cells won, tied and lost, by hit value, for small objects and for ranges of large ones."""
    lines = []
    for name, (rival, title) in PICTURES.items():
        lines.append(f"{title} ({name}):")
        for value in VALUES_USD_PER_MILLION:
            counts = Counter(
                (_reads(cell.load), cell.outcome(rival(cell))) for cell in cells if cell.usd_per_million == value
            )
            parts = []
            for reads in ("objects", "ranges"):
                won, tied, lost = (counts[reads, outcome] for outcome in ("wins", "ties", "loses"))
                parts.append(f"{reads} {won} won, {tied} tied, {lost} lost")
            lines.append(f"  value of a hit {value:g} USD per million: {'; '.join(parts)}")
    return lines


def letter_of(name: str) -> str:
    """Return a rival's letter, with + if it is behind readers' memory."""
    kind = name.partition(":")[0]
    below = kind.removeprefix("reader-memory+")
    if kind.startswith("reader-memory") and below == kind:
        return "M"
    letter = next((letter for prefix, letter in _KINDS.items() if below.startswith(prefix)), "N")
    return f"{letter}+" if below != kind else letter


def _reads(load: Load) -> str:
    return "ranges" if load.by_ranges else "objects"


def _usd(buy: Buy) -> list[str]:
    return [f"{buy.bill_usd:.4f}", f"{buy.usd:.4f}"]
