"""Limits of the engines: tests that an engine cannot pass although AWS is as they say, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

# Engine → reason → tests. The id of a test, or of all tests of a function or a file.
LIMITS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "dynalite": {},
    "ministack": {
        "It accepts two clauses for one column.": (
            "tests/unit/local/test_refused_writes.py::test_two_clauses_for_one_column_are_refused",
        ),
    },
}


def limit_of(engine: str, test: str) -> str:
    """Return why an engine cannot pass a test, or an empty text."""
    for reason, tests in LIMITS[engine].items():
        if any(test == each or test.startswith((f"{each}[", f"{each}::")) for each in tests):
            return reason
    return ""
