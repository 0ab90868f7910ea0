"""A table of reproduced results, as text, Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from burstcache_terminal.text import table_text


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of `words` text columns, followed by number columns."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: int = 1  # text columns on the left

    def text(self) -> str:
        """Return the table for a terminal."""
        right = range(self.words, len(self.header))
        return "\n".join(filter(None, (self.title, self.note, table_text(self.header, self.rows, right=right))))

    def markdown(self) -> str:
        """Return the table as Markdown, with a heading."""
        rules = ["---"] * self.words + ["---:"] * (len(self.header) - self.words)
        lines = "\n".join(f"| {' | '.join(row)} |" for row in (self.header, rules, *self.rows))
        return "\n\n".join(filter(None, (f"## {self.title}", self.note, lines)))


def csv_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()
