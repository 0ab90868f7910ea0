"""Reads that are too old are found, and no others."""

from __future__ import annotations

import math
from typing import Any

import pytest

from consistency.bounds import violations
from consistency.history import Kind, Operation


def operation(kind: Kind, value: int | None, start_us: int, end_us: int, **more: Any) -> Operation:
    return Operation(**{"client": "one", "key": "k"} | more, kind=kind, value=value, start_us=start_us, end_us=end_us)


def found(*history: Operation, stale_us: float = 0) -> list[str]:
    return [each.rule for each in violations(history, stale_us=lambda _: stale_us, forward=lambda _: True)]


WRITES = [operation("write", 1, 0, 10), operation("write", 2, 20, 30)]


@pytest.mark.parametrize(
    ("start_us", "stale_us", "expected"),
    [(30, 0, []), (31, 0, ["older than allowed"]), (130, 100, []), (131, 100, ["older than allowed"])],
)
def test_an_old_value_may_be_read_until_the_bound_after_the_acknowledgement(
    start_us: int, stale_us: float, expected: list[str]
) -> None:
    assert found(*WRITES, operation("read", 1, start_us, 200), stale_us=stale_us) == expected


def test_which_of_two_writes_that_overlapped_is_the_newer_one_is_not_held_against_a_read() -> None:
    writes = [operation("write", 1, 0, 25), operation("write", 2, 20, 30)]

    assert found(*writes, operation("read", 1, 40, 50), operation("read", 2, 60, 70)) == []


def test_a_write_without_an_answer_makes_nothing_old_and_is_never_old() -> None:
    lost = operation("write", 2, 20, 30, is_known=False)

    assert found(WRITES[0], lost, operation("read", 1, 90, 95)) == []
    assert found(WRITES[0], lost, operation("write", 3, 40, 50), operation("read", 2, 90, 95)) == []


def test_a_value_that_nobody_wrote_yet_is_found() -> None:
    assert found(*WRITES, operation("read", 3, 40, 50)) == ["a value that nobody wrote"]
    assert found(operation("read", 1, -9, -5), *WRITES) == ["a value that nobody wrote"]


def test_an_object_is_not_there_before_its_first_write_and_after_a_deletion() -> None:
    deleted = operation("delete", None, 40, 50)

    assert found(operation("read", None, -9, -5), *WRITES, deleted, operation("read", None, 60, 70)) == []
    assert found(*WRITES, operation("read", None, 60, 70)) == ["older than allowed"]
    assert found(*WRITES, deleted, operation("read", 2, 60, 70)) == ["older than allowed"]


def test_no_client_goes_back_while_another_may_be_behind() -> None:
    new, old = operation("read", 2, 40, 50), operation("read", 1, 60, 70)

    assert found(*WRITES, new, old, stale_us=math.inf) == ["not monotonic for one reader"]
    assert found(*WRITES, new, operation("read", 1, 60, 70, client="two"), stale_us=math.inf) == []
    assert found(*WRITES, new, operation("read", 1, 45, 70), stale_us=math.inf) == []  # they overlap


def test_a_write_whose_condition_did_not_hold_makes_nothing_old() -> None:
    refused = operation("refused", None, 40, 50, only_over=1)

    assert found(*WRITES, refused, operation("read", 2, 60, 70)) == []


def test_a_violation_has_the_operations_that_show_it() -> None:
    read = operation("read", 1, 60, 70)

    (violation,) = violations([read, *WRITES], stale_us=lambda _: 5, forward=lambda _: True)

    assert violation.history == (*WRITES, read)
    assert violation.by_us == 25


def test_keys_have_nothing_to_do_with_each_other() -> None:
    other = operation("write", 9, 100, 110, key="other")

    assert found(*WRITES, other, operation("read", 2, 200, 210), operation("read", 9, 200, 210, key="other")) == []


def test_reads_without_an_answer_say_nothing() -> None:
    assert found(*WRITES, operation("read", None, 60, 70, is_known=False)) == []
