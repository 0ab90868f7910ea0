"""Instants, durations, numbers and tables as a person reads them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

NOTHING = "-"
_UNITS_S = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def time_text(at_us: int, *, with_ms: bool = False) -> str:
    """Return an instant in UTC as CloudWatch shows it (`2026-01-31T12:00:00Z`), or `-` for 0.

    Args:
        at_us: The instant, since 1970 [us].
        with_ms: Whether to add milliseconds.
    """
    if not at_us:
        return NOTHING
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{at}.{at_us // 1000 % 1000:03d}Z" if with_ms else f"{at}Z"


def duration_text(duration_s: float) -> str:
    """Return a duration in its two largest units, without a second one that is 0: `8.24 s`, `5 min`, `2 h 5 min`.

    Args:
        duration_s: At least 0 [s]; below a minute three digits are kept, above it whole seconds.
    """
    if duration_s < 60:
        return f"{duration_s:.3g} s"
    whole_s = int(duration_s)
    unit = next(i for i, (_, unit_s) in enumerate(_UNITS_S) if whole_s >= unit_s)
    (large, large_s), (small, small_s) = _UNITS_S[unit], _UNITS_S[unit + 1]
    rest = whole_s % large_s // small_s
    return f"{whole_s // large_s} {large}" + (f" {rest} {small}" if rest else "")


def number_text(value: float) -> str:
    """Return a number without needless digits."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def count_text(number: int, noun: str) -> str:
    """Return a number of things: `1 key`, `2,000 keys`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def small_usd_text(value_usd: float) -> str:
    """Return a small amount twice, per one and per million: nobody compares `1.2e-05` with a price list."""
    return f"{value_usd:.3g} USD ({value_usd * 1e6:,.3g} per million)"


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return header and rows as lines of aligned columns, two blanks apart, without blanks at the ends of lines.

    Args:
        header: The columns' names.
        rows: Cells, as many in each row as there are columns.
        right: Columns that are aligned to the right: numbers.
    """
    return rows_text((header, *rows), right=right)


def rows_text(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return at least one row as lines of aligned columns; arguments as for `table_text`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(row)).rstrip()
        for row in rows
    )
    return "\n".join(lines)
