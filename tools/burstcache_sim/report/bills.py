"""Bills and comparisons as terminal tables and JSON fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burstcache.core.prices import UNCHECKED
from burstcache_sim.bill.breakeven_frequency import BurstFrequency
from burstcache_sim.bill.comparison import ComparedSystem
from burstcache_sim.bill.cost import Bill
from burstcache_terminal.text import WIDTH, fixed_text, footnotes, number_text, table_text, wrapped_text

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
BILL_NUMBERS, COMPARISON_NUMBERS = (1, 3, 4), (1, 2, 3)  # right-aligned columns


def bill_table(billed: Bill, month: Bill) -> str:
    """Return a bill as a table with its sum, and a note on unchecked prices.

    Args:
        billed: Bill of one period.
        month: Bill of a month that repeats this period.
    """
    table = table_text(*bill_rows(billed, month), right=BILL_NUMBERS, most=WIDTH)
    return "\n".join(filter(None, (table, wrapped_text(unchecked_note(billed)))))


def bill_rows(billed: Bill, month: Bill) -> Table:
    """Return a bill as a header and rows, with the sum in the last row."""
    decimals = 2 + _decimals(billed.usd)  # the thesis's items cost fractions of a cent

    def row(text: str, quantity: str, unit: str, usd: float, month_usd: float) -> tuple[str, ...]:
        return text, quantity, unit, fixed_text(usd, decimals), fixed_text(month_usd, 2)

    rows = [
        row(line.text, number_text(float(line.quantity)), line.unit, line.usd, in_month.usd)
        for line, in_month in zip(billed.lines, month.lines, strict=True)
    ]
    rows.append(row("sum", "", "", billed.usd, month.usd))
    return ("item", "quantity", "unit", "USD", "USD a month"), rows


def unchecked_note(billed: Bill) -> str:
    """Return a note that lists the items with unchecked prices, or an empty string."""
    unchecked = [line.text for line in billed.lines if UNCHECKED in line.source]
    return f"prices {UNCHECKED}: {'; '.join(unchecked)}" if unchecked else ""


def comparison_table(compared: Sequence[ComparedSystem]) -> str:
    """Return a table of systems with footnotes and an explanation of its last column."""
    header, rows = comparison_rows(compared)
    marks, notes = footnotes(row[-1] for row in rows)
    marked = [(f"{name}{mark}", *cells) for (name, *cells, _), mark in zip(rows, marks, strict=True)]
    table = table_text(header[:-1], marked, right=COMPARISON_NUMBERS, most=WIDTH)
    return "\n".join([table, "", wrapped_text(cheaper_note(compared)), *notes])


def comparison_rows(compared: Sequence[ComparedSystem]) -> Table:
    """Return a comparison as a header and rows. The last cell of a row is its note."""
    decimals = _decimals(max(system.usd for system in compared))
    rows: list[tuple[str, ...]] = [
        (
            system.name,
            fixed_text(system.usd, decimals),
            fixed_text(system.usd_per_month, 2),
            f"{system.in_memory_pct:.2f}",
            "" if system.cheaper_at is None else _times_text(system.cheaper_at),
            system.note,
        )
        for system in compared
    ]
    return ("system", "USD", "a month", "memory %", "ours cheaper", "note"), rows


def cheaper_note(compared: Sequence[ComparedSystem]) -> str:
    """Return an explanation of the column `ours cheaper`."""
    at = compared[-1].cheaper_at
    window = "hour" if at is None or at.window_h == 1 else "month"
    return (
        f"ours cheaper: repetitions of the trace per {window} at which Burstcache costs less (in parentheses: their"
        f" share of the {window})."
    )


def _times_text(at: BurstFrequency) -> str:
    """Describe the repetition counts at which Burstcache is cheaper. A limit beyond the window reads `always`."""
    if at.most is None:
        return "always" if at.least <= 1 else f"from {at.least:,} times"
    if at.most == 0:
        return "never"
    covered = int(at.coverage_pct or 0)
    return f"up to {at.most:,} ({covered} %)" if covered <= 100 else "always"


def _decimals(most_usd: float) -> int:
    """Return the number of decimals to print if the largest amount is `most_usd`."""
    return 5 if most_usd < 1 else 2


def bill_lines(billed: Bill) -> list[dict[str, Any]]:
    """Return a bill's items for JSON."""
    return [
        {
            "item": line.text,
            "quantity": float(line.quantity),
            "unit": line.unit,
            "usd": line.usd,
            "is_fixed": line.is_fixed,
            "source": line.source,
        }
        for line in billed.lines
    ]


def compared_fields(system: ComparedSystem) -> dict[str, Any]:
    """Return one system of a comparison for JSON."""
    at = system.cheaper_at
    return {
        "name": system.name,
        "usd": system.usd,
        "usd_per_month": system.usd_per_month,
        "in_memory_pct": system.in_memory_pct,
        "cheaper_at": None if at is None else {"from": at.least, "to": at.most, "in_hours": at.window_h},
        "note": system.note,
        "lines": bill_lines(system.bill),
    }
