"""Reference results for nine small traces, from another implementation of `docs/understand/simulation.md`."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "golden" / "data"
REFERENCE: dict[str, Any] = json.loads((DATA / "reference.json").read_text())  # microseconds and cost units

each_trace = pytest.mark.parametrize(
    "trace", REFERENCE["traces"], ids=[reference_trace["name"] for reference_trace in REFERENCE["traces"]]
)


def trace_path(trace: dict[str, Any]) -> Path:
    """Return the file of a reference trace."""
    return DATA / str(trace["file"])


def arrivals_us(trace: dict[str, Any]) -> list[int]:
    """Return a reference trace's requests [us]."""
    return [int(Fraction(row) * 1_000_000) for row in trace_path(trace).read_text().split()[1:]]
