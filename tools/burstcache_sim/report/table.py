"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return header and rows as lines of aligned columns.

    Args:
        header: The columns' names.
        rows: Cells, as many in each row as there are columns.
        right: Columns that are aligned to the right: numbers.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(row)).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join(lines)
