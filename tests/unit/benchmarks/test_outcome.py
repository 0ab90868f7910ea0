"""Benchmarks of papers: their tables have the published values next to ours."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import results_places, state_operations, state_reaction, state_students
from benchmarks.support.outcome import Progress, Table, add_options, leave
from burstcache.queries.history import Step
from burstcache_dashboard.benchmarks import PICTURE, TABLE


def test_kumars_operations_stand_next_to_ours() -> None:
    side = state_operations.Side()
    for times_ms in (1.0, 3.0):
        side.add({"write_ms": times_ms, "read_ms": times_ms, "delete_ms": times_ms})

    table = state_operations.table_of({"one by one": side})

    assert all(table.columns)  # a heading without words is no heading for a screen reader
    assert table.rows[0] == ["Kumar: OpenWhisk and Redis", "178.6", "168.8", "9.8", "538.9"]
    assert table.rows[-1] == ["one by one", "2.0 ± 1.4", "2.0 ± 1.4", "2.0 ± 1.4", ""]


def test_kumars_start_stands_next_to_ours() -> None:
    table = state_reaction.table_of([state_reaction.Reactions(5.0, [5.5, 5.7], [0.1, 0.1])])

    assert all(table.columns)
    assert table.rows[0][:2] == ["Kumar: his container starts", "about 2"]
    assert table.rows[1] == ["here, the instance boots in 5 s", "5.60 ± 0.14", "0.60 ± 0.14", "0.10 ± 0.00"]
    assert "2 of 2 times" in table.note


def test_rosas_places_stand_next_to_ours() -> None:
    row = results_places.Row(18_617, results_places.IN_PROCESS, [0.003, 0.004, 0.005], [0.02] * 3)

    assert results_places.table_of([row]).rows == [["18,617 bytes", "in process", "0.158", "0.004", "0.020"]]


STUDENT_STATES = (
    "AcquireToWrite", "WriteStudent", "ReleaseAfterWrite", "IsAsleep", "WaitUntilAsleep", "ReleaseAfterWrite",
    "IsAsleep", "AcquireToRead", "ReadStudent", "ReleaseAfterRead", "StudentRead", "",
)  # fmt: skip


def test_the_parts_of_a_students_workflow_begin_with_the_first_entry_of_a_state() -> None:
    steps = [Step(1_500_000 * number, state) for number, state in enumerate(STUDENT_STATES)]

    assert list(state_students.parts_of(steps).values()) == [1.5, 1.5, 7.5, 1.5, 1.5]


def test_kumars_students_stand_next_to_ours() -> None:
    parts_s = state_students.parts_of([Step(1_000_000 * at, state) for at, state in enumerate(STUDENT_STATES)])
    students = [state_students.Student(parts_s, is_found, boots=2) for is_found in (True, False)]

    table = state_students.table_of(students)

    assert all(table.columns)
    assert table.rows[0][:3] == ["Kumar: a container on the same machine", "20 of 20", "about 2"]
    assert table.rows[1][1:] == ["1 of 2", "1.00 ± 0.00", "1.00 ± 0.00", "5.00 ± 0.00", "1.00 ± 0.00", "1.00 ± 0.00"]
    assert "slept in between 2 of 2 times" in table.note


def test_the_page_gets_a_table_and_a_picture_with_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser()
    add_options(parser)
    arguments = parser.parse_args([str(tmp_path / "own.png"), "--page", str(tmp_path)])

    Progress(2, is_printed=True).step("first")
    leave(arguments, Table(("place", "ms"), 1, [["here", "1"]], "one"), Figure)

    assert capsys.readouterr().err == "1/2 first\n"
    shown = json.loads((tmp_path / TABLE).read_text())
    assert shown["columns"] == [{"name": "place", "number": False}, {"name": "ms", "number": True}]
    assert (shown["rows"], shown["note"]) == ([["here", "1"]], "one")
    assert (tmp_path / PICTURE).read_bytes() == (tmp_path / "own.png").read_bytes()
