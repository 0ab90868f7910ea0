"""Histories as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from consistency.history import Operation, read_history, write_history


def test_a_history_is_read_as_it_was_written_in_the_order_of_its_starts(tmp_path: Path) -> None:
    write = Operation("one", "write", "k", 1, 0, 10, is_known=False, path="direct")
    read = Operation("two", "read", "k", None, 5, 6, tier="redis")

    write_history(tmp_path / "history.jsonl", [read, write])

    assert list(read_history(tmp_path / "history.jsonl")) == [write, read]


@pytest.mark.parametrize("line", ["{}", '{"kind": "read", "when": 5}', "no JSON", "[]"])
def test_a_line_that_is_no_operation_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line)

    with pytest.raises(ValueError, match="history.jsonl:1: .* is no operation"):
        list(read_history(path))
