"""Pieces count for the code that they were recorded with, and all states have to be entered in them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consistency import __main__ as consistency
from consistency.history import Event, Operation
from consistency.setting import SETTINGS

PASSED = {state: 1 for state in consistency.states() if state not in consistency.UNENTERED}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of pieces that were recorded, each of ten operations."""
    numbers: list[int] = []

    def run_piece(number: int, *_: object) -> tuple[dict[str, Any], str]:
        numbers.append(number)
        counts = dict.fromkeys((*consistency.COUNTS, "failed_reads"), 10)
        kind = {"way": "api", "has_faults": True, "reads": {}, "oldest_ms": {}, "passed": PASSED}
        return {"piece": number, **kind, **counts}, ""

    monkeypatch.setattr(consistency, "run_piece", run_piece)
    return numbers


def run(folder: Path, operations: int) -> int:
    return consistency.main(["--folder", str(folder), "--operations", str(operations)])


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path, recorded: list[int]) -> None:
    run(tmp_path, 20)

    run(tmp_path, 40)

    assert recorded == [0, 1, 2, 3]


def test_pieces_of_other_code_count_as_none(
    tmp_path: Path, recorded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, 20)
    monkeypatch.setattr(consistency, "code_of", lambda **_: "changed")

    run(tmp_path, 20)

    assert recorded == [0, 1, 0, 1]


def test_a_run_fails_for_a_state_that_was_never_entered(
    tmp_path: Path, recorded: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = 10 * len(SETTINGS)
    assert run(tmp_path / "all", whole) == 0
    monkeypatch.delitem(PASSED, "key_lifecycle: SeedRedis")

    assert run(tmp_path / "one missing", whole) == 1
    assert "NEVER ENTERED: key_lifecycle: SeedRedis" in capsys.readouterr().out
    assert run(tmp_path / "too few to say", whole - 10) == 0


def test_what_need_not_be_entered_are_states() -> None:
    assert consistency.UNENTERED.keys() <= set(consistency.states())


def test_a_kept_piece_names_its_code(tmp_path: Path, recorded: list[int]) -> None:
    run(tmp_path, 10)

    (line,) = (tmp_path / "pieces.jsonl").read_text().splitlines()

    assert len(json.loads(line)["code"]) == 12


def test_a_violation_is_printed_with_what_happened_to_its_key_and_to_the_stack() -> None:
    write, read = partial(Operation, "one", key="k", path="direct"), partial(Operation, "two", "read", "k")
    history = [
        write(kind="write", value=1, start_us=0, end_us=1),
        write(kind="write", value=2, start_us=19_000_000, end_us=20_000_000),
        read(1, 23_000_001, 23_100_000, tier="redis", path="direct"),
    ]
    events = [
        Event(1_000_000, "long before"),
        Event(20_200_000, "fault: node-1"),
        Event(20_300_000, "S3's event", "k"),
        Event(20_400_000, "S3's event", "another"),
        Event(24_000_000, "afterwards"),
    ]

    problem = consistency.check(history, events=events).splitlines()

    assert problem[0] == "VIOLATION: older than allowed, by 0.001 ms"
    assert problem[3].split()[-4:] == ["two", "read", "1", "redis"]
    assert problem[4:] == [" 20200.000 ms  fault: node-1", " 20300.000 ms  S3's event"]
