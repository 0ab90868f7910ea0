"""Bills and comparisons as tables for a terminal, and as fields for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burstcache.core.prices import UNCHECKED
from burstcache_sim.bill.breakeven_frequency import BurstFrequency
from burstcache_sim.bill.comparison import Compared
from burstcache_sim.bill.cost import Bill
from burstcache_terminal.text import WIDTH, fixed_text, footnotes, number_text, table_text, wrapped_text

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
BILL_NUMBERS, COMPARISON_NUMBERS = (1, 3, 4), (1, 2, 3)  # columns aligned to the right


def bill_table(billed: Bill, month: Bill) -> str:
    """Return a bill with its sum and the names of its unchecked prices, if any.

    Args:
        billed: The bill of a period.
        month: The bill of a month of such periods.
    """
    table = table_text(*bill_rows(billed, month), right=BILL_NUMBERS, most=WIDTH)
    return "\n".join(filter(None, (table, wrapped_text(unchecked_note(billed)))))


def bill_rows(billed: Bill, month: Bill) -> Table:
    """Return a bill as header and rows; the last row is the sum."""
    decimals = 2 + _decimals(billed.usd)  # the thesis's items are parts of a cent

    def row(text: str, quantity: str, unit: str, usd: float, month_usd: float) -> tuple[str, ...]:
        return text, quantity, unit, fixed_text(usd, decimals), fixed_text(month_usd, 2)

    rows = [
        row(line.text, number_text(float(line.quantity)), line.unit, line.usd, in_month.usd)
        for line, in_month in zip(billed.lines, month.lines, strict=True)
    ]
    rows.append(row("sum", "", "", billed.usd, month.usd))
    return ("item", "quantity", "unit", "USD", "USD a month"), rows


def unchecked_note(billed: Bill) -> str:
    """Return a note of the items with unchecked prices; empty if there are none."""
    unchecked = [line.text for line in billed.lines if UNCHECKED in line.source]
    return f"prices {UNCHECKED}: {'; '.join(unchecked)}" if unchecked else ""


def comparison_table(compared: Sequence[Compared]) -> str:
    """Return a line per system, and what the last column and the marks say."""
    header, rows = comparison_rows(compared)
    marks, notes = footnotes(row[-1] for row in rows)
    marked = [(f"{name}{mark}", *cells) for (name, *cells, _), mark in zip(rows, marks, strict=True)]
    table = table_text(header[:-1], marked, right=COMPARISON_NUMBERS, most=WIDTH)
    return "\n".join([table, "", wrapped_text(cheaper_note(compared)), *notes])


def comparison_rows(compared: Sequence[Compared]) -> Table:
    """Return a comparison as header and rows; the last cell of a row is a note."""
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


def cheaper_note(compared: Sequence[Compared]) -> str:
    """Return what the column `ours cheaper` counts."""
    at = compared[-1].cheaper_at
    window = "an hour" if at is None or at.window_h == 1 else "a month"
    share = "in parentheses the share of that time that it then takes"
    return f"ours cheaper: how often the trace may come in {window} for Burstcache to cost less; {share}."


def _times_text(at: BurstFrequency) -> str:
    """Return at how many repetitions ours is cheaper; more than fit one after the other are any number."""
    if at.most is None:
        return "always" if at.least <= 1 else f"from {at.least:,} times"
    if at.most == 0:
        return "never"
    covered = int(at.coverage_pct or 0)
    return f"up to {at.most:,} ({covered} %)" if covered <= 100 else "always"


def _decimals(most_usd: float) -> int:
    """Return how many decimals amounts up to this one need."""
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


def compared_fields(system: Compared) -> dict[str, Any]:
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
