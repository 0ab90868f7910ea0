"""Bills and comparisons as tables for a terminal, and as fields for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from burstcache.core.prices import UNCHECKED
from burstcache_sim.bill.comparison import Compared
from burstcache_sim.bill.cost import Bill
from burstcache_terminal.text import table_text

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header, rows
BILL_NUMBERS, COMPARISON_NUMBERS = (1, 3, 4), (1, 2, 3)  # columns aligned to the right


def bill_table(billed: Bill, per_month: Fraction) -> str:
    """Return a bill with its sum and the names of its unchecked prices, if any.

    Args:
        billed: The bill of a period.
        per_month: How many such periods a month has.
    """
    table = table_text(*bill_rows(billed, per_month), right=BILL_NUMBERS)
    return "\n".join(filter(None, (table, unchecked_note(billed))))


def bill_rows(billed: Bill, per_month: Fraction) -> Table:
    """Return a bill as header and rows; the last row is the sum."""

    def row(text: str, quantity: str, unit: str, usd: Fraction) -> tuple[str, ...]:
        return text, quantity, unit, f"{float(usd):.7f}", f"{float(usd * per_month):.2f}"

    rows = [row(line.text, f"{float(line.quantity):.6g}", line.unit, line.usd_exact) for line in billed.lines]
    rows.append(row("sum", "", "", billed.usd_exact))
    return ("item", "quantity", "unit", "USD", "USD a month"), rows


def unchecked_note(billed: Bill) -> str:
    """Return a note of the items with unchecked prices; empty if there are none."""
    unchecked = [line.text for line in billed.lines if UNCHECKED in line.source]
    return f"prices {UNCHECKED}: {'; '.join(unchecked)}" if unchecked else ""


def comparison_table(compared: Sequence[Compared]) -> str:
    """Return a line per system."""
    return table_text(*comparison_rows(compared), right=COMPARISON_NUMBERS)


def comparison_rows(compared: Sequence[Compared]) -> Table:
    """Return a comparison as header and rows."""
    rows: list[tuple[str, ...]] = [
        (
            system.name,
            f"{system.usd:.6f}",
            f"{system.usd_per_month:.2f}",
            f"{system.in_memory_pct:.2f}",
            "" if system.cheaper_at is None else str(system.cheaper_at),
            system.note,
        )
        for system in compared
    ]
    per = "an hour" if compared[-1].cheaper_at is None or compared[-1].cheaper_at.window_h == 1 else "a month"
    return ("system", "USD", "USD a month", "memory %", f"we are cheaper at, {per}", "note"), rows


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
