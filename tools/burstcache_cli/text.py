"""How times, durations and tables are written for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

NOTHING = "-"
_UNITS_S = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def time_text(at_us: int, *, with_ms: bool = False) -> str:
    """Return an instant in UTC (`2026-01-31T12:00:00Z`), as CloudWatch shows it too; 0: none."""
    if not at_us:
        return NOTHING
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{at}.{at_us // 1000 % 1000:03d}Z" if with_ms else f"{at}Z"


def duration_text(duration_us: int) -> str:
    """Return a duration in its two largest units, or with a tenth of a second below a minute."""
    duration_s = duration_us / 1_000_000
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    unit = next(i for i, (_, unit_s) in enumerate(_UNITS_S) if duration_s >= unit_s)
    (large, large_s), (small, small_s) = _UNITS_S[unit], _UNITS_S[unit + 1]
    whole_s = int(duration_s)
    return f"{whole_s // large_s} {large} {whole_s % large_s // small_s} {small}"


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns, the header first, two blanks between columns, none at the ends of lines."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows))
    return "\n".join(line.rstrip() for line in lines)
