"""Text for terminals: times, durations, numbers and tables."""

from __future__ import annotations

import codecs
import io
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from math import floor, log10

NOTHING = "-"
WIDTH = 80  # characters per line
_LEAST_COLUMN = 12  # minimum width of a column with wrapped cells
_UNITS_S = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


# ASCII replacements for the special characters in our texts.
_IN_ASCII = str.maketrans(
    {"…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "→": "->", "≤": "<=", "≥": ">=", "±": "+-", "µ": "u"}
)


def print_anything() -> None:
    """Make stdout and stderr print unencodable characters as ASCII instead of raising an error."""
    codecs.register_error("burstcache", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # tests may replace the streams
            stream.reconfigure(errors="burstcache")


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_IN_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def time_text(at_us: int, *, with_ms: bool = False) -> str:
    """Format a UTC time as CloudWatch does (`2026-01-31T12:00:00Z`), or `-` for 0.

    Args:
        at_us: The time, since 1970 [us].
        with_ms: Whether to include milliseconds.
    """
    if not at_us:
        return NOTHING
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{at}.{at_us // 1000 % 1000:03d}Z" if with_ms else f"{at}Z"


def duration_text(duration_s: float) -> str:
    """Format a duration in its two largest units, without a second unit of 0: `8.24 s`, `5 min`, `2 h 5 min`.

    Args:
        duration_s: Duration [s], at least 0. Values below a minute get three significant digits, others whole seconds.
    """
    if duration_s < 60:
        return f"{duration_s:.3g} s"
    whole_s = int(duration_s)
    unit = next(i for i, (_, unit_s) in enumerate(_UNITS_S) if whole_s >= unit_s)
    (large, large_s), (small, small_s) = _UNITS_S[unit], _UNITS_S[unit + 1]
    rest = whole_s % large_s // small_s
    return f"{whole_s // large_s} {large}" + (f" {rest} {small}" if rest else "")


def number_text(value: float, *, digits: int = 4) -> str:
    """Format a number without trailing zeros or an exponent: `0.000018`, `3.2`, `12,346`.

    Args:
        value: Any finite number.
        digits: Number of significant digits for numbers below 1,000.
    """
    if abs(value) >= 1_000 or not value:
        return f"{value:,.0f}"
    return _plain(f"{value:,.{max(0, digits - 1 - floor(log10(abs(value))))}f}")


def fixed_text(value: float, decimals: int) -> str:
    """Format a number with a fixed number of decimals. A positive number that rounds to 0 becomes `<0.01`."""
    least: float = 10**-decimals
    return f"<{least:.{decimals}f}" if 0 < value < least / 2 else f"{value:,.{decimals}f}"


def usd_text(value_usd: float) -> str:
    """Format an amount in USD: `0.25`, `<0.01`, and without cents from 1,000 USD."""
    return fixed_text(value_usd, 2 if abs(value_usd) < 1_000 else 0)


def count_text(number: int, noun: str) -> str:
    """Format a number with its noun: `1 key`, `2,000 keys`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def each_usd_text(value_usd: float) -> str:
    """Format the price or value of one item as in price lists: `12.5 USD per million` or `3.2 USD`."""
    if value_usd < 0.01:
        return f"{number_text(value_usd * 1e6, digits=3)} USD per million"
    return f"{number_text(value_usd, digits=3)} USD"


def shortened_text(text: str, most: int) -> str:
    """Truncate text to at most `most` characters, including an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shown_text(text: str) -> str:
    """Escape characters that a terminal would interpret or hide, such as control characters in a key."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def wrapped_text(text: str, *, indent: str = "") -> str:
    """Wrap text to lines of 80 characters, and indent all lines but the first. A longer word gets its own line."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def footnotes(notes: Iterable[str]) -> tuple[list[str], list[str]]:
    """Number a column's distinct notes. Return each row's mark (` [1]`, or empty) and the numbered notes."""
    column = list(notes)
    numbers = {note: number for number, note in enumerate(dict.fromkeys(filter(None, column)), start=1)}
    marks = [f" [{numbers[note]}]" if note else "" for note in column]
    return marks, [wrapped_text(f"[{number}] {note}", indent="    ") for note, number in numbers.items()]


def table_text(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), most: int | None = None
) -> str:
    """Format a header and rows as aligned columns, two spaces apart, without trailing spaces.

    Args:
        header: Names of the columns.
        rows: Rows of cells, one per column.
        right: Indices of right-aligned columns.
        most: Maximum width of a line. If necessary, the cells of the widest left-aligned column are wrapped.
    """
    return rows_text((header, *rows), right=right, most=most)


def rows_text(rows: Sequence[Sequence[str]], *, right: Collection[int] = (), most: int | None = None) -> str:
    """Format one or more rows as aligned columns. The arguments are those of `table_text`."""
    rows = [list(map(shown_text, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = [i for i in range(len(widths)) if i not in right]
    if most is not None and texts:
        widest = max(texts, key=widths.__getitem__)
        over = sum(widths) + 2 * (len(widths) - 1) - most
        widths[widest] -= max(0, min(over, widths[widest] - _LEAST_COLUMN))
    lines = (
        "  ".join(f"{cell:{'>' if i in right else '<'}{widths[i]}}" for i, cell in enumerate(line)).rstrip()
        for row in rows
        for line in zip_longest(*map(_broken, row, widths), fillvalue="")
    )
    return "\n".join(lines)


def _broken(cell: str, width: int) -> list[str]:
    """Split a cell into lines of at most `width` characters, preferably after spaces, commas and colons."""
    lines = [""]
    for word in re.findall(r"[^ ,:]*(?:[ ,:]+|$)", cell):
        if len(lines[-1]) + len(word.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += word
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return [line.rstrip() for line in lines]


def _plain(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number
