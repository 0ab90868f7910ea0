"""Histories as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from consistency.history import Operation, overlapping, read_history, write_history


def test_a_history_is_read_as_it_was_written_in_the_order_of_its_starts(tmp_path: Path) -> None:
    write = Operation("one", "write", "k", 1, 0, 10, is_known=False, path="direct")
    read = Operation("two", "read", "k", None, 5, 6, tier="redis")

    write_history(tmp_path / "history.jsonl", [read, write])

    assert list(read_history(tmp_path / "history.jsonl")) == [write, read]


@pytest.mark.parametrize("line", ["{}", '{"kind": "read", "when": 5}', "no JSON", "[]"])
def test_a_line_that_is_no_operation_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line)

    with pytest.raises(ValueError, match="history.jsonl:1: .* is not an operation"):
        list(read_history(path))


def test_writes_of_a_key_that_overlap_another_one_are_counted() -> None:
    def write(key: str, start_us: int, end_us: int) -> Operation:
        return Operation("one", "write", key, start_us, start_us, end_us)

    assert overlapping([write("a", 0, 10), write("a", 10, 20), write("b", 5, 15)]) == 0
    assert overlapping([write("a", 0, 30), write("a", 10, 20), write("a", 25, 26), write("a", 40, 50)]) == 3
    assert overlapping([write("a", 0, 30), Operation("two", "refused", "a", None, 10, 20, only_over=1)]) == 0
