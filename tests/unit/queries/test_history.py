"""History of an execution: states in order, ends, failures, each event once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from burstcache.core.errors import ServiceError
from burstcache.queries.history import History, Step, steps_of

START = datetime(2026, 8, 1, tzinfo=UTC)
START_US = 1_785_542_400_000_000


def event(id_: int, type_: str, **details: Any) -> dict[str, Any]:
    return {"id": id_, "timestamp": START + timedelta(milliseconds=id_), "type": type_, **details}


def entered(id_: int, state: str, type_: str = "TaskStateEntered") -> dict[str, Any]:
    return event(id_, type_, stateEnteredEventDetails={"name": state})


class States:
    """Step Functions' history of one execution, newest first, in pages; counts what is read."""

    def __init__(self, events: list[dict[str, Any]], page_length: int = 3, error: str = "") -> None:
        self.events, self.page_length, self.error, self.pages_read = events, page_length, error, 0

    def get_paginator(self, operation: str) -> States:
        assert operation == "get_execution_history"
        return self

    def paginate(self, *, executionArn: str, reverseOrder: bool, includeExecutionData: bool) -> Iterator[Any]:
        assert (executionArn, reverseOrder) == ("arn:1", True)
        self.has_sent_data = includeExecutionData
        if self.error:
            raise ClientError({"Error": {"Code": self.error, "Message": ""}}, "GetExecutionHistory")
        newest_first = self.events[::-1]
        for start in range(0, len(newest_first), self.page_length):
            self.pages_read += 1
            yield {"events": newest_first[start : start + self.page_length]}


def history_of(states: Any) -> History:
    return History(states, "arn:1")


def test_steps_are_states_entered_in_order_and_the_end() -> None:
    events = [
        event(6, "ExecutionSucceeded"),
        entered(4, "IsPromoted", "ChoiceStateEntered"),
        event(3, "TaskStateExited"),
        entered(2, "Lambda"),
        event(1, "ExecutionStarted"),
    ]

    assert steps_of(events) == [
        Step(START_US + 2000, "Lambda"), Step(START_US + 4000, "IsPromoted"), Step(START_US + 6000, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        (
            event(1, "ExecutionFailed", executionFailedEventDetails={"error": "NodeFailedError", "cause": "no ping"}),
            "NodeFailedError: no ping",
        ),
        (event(1, "ExecutionAborted", executionAbortedEventDetails={}), "ExecutionAborted"),
        (event(1, "ExecutionTimedOut"), "ExecutionTimedOut"),
    ],
)
def test_bad_end_says_error_and_cause(end: dict[str, Any], failure: str) -> None:
    assert steps_of([end]) == [Step(START_US + 1000, "", failure)]


@pytest.mark.parametrize("with_data", [False, True])
def test_data_of_an_execution_is_asked_for_only_where_it_is_used(*, with_data: bool) -> None:
    states: Any = States([event(1, "ExecutionSucceeded", executionSucceededEventDetails={"output": '{"a": 1}'})])

    steps = History(states, "arn:1", with_data).read_new()

    assert states.has_sent_data is with_data
    assert steps == [Step(START_US + 1000, "", output='{"a": 1}')]


def test_history_is_read_piece_by_piece_and_no_further_than_needed() -> None:
    states = States([entered(i, f"State{i}") for i in range(1, 8)])
    history = history_of(states)
    first = history.read_new() or []
    states.events += [entered(8, "State8")]
    states.pages_read = 0

    second = history.read_new() or []

    assert [step.state for step in first] == [f"State{i}" for i in range(1, 8)]
    assert [step.state for step in second] == ["State8"]
    assert states.pages_read == 1
    assert history.read_new() == []


def test_first_reading_of_a_long_history_stops_at_the_newest_events() -> None:
    states = States([entered(i, "CheckNodeUse") for i in range(1, 5001)], page_length=100)

    assert len(history_of(states).read_new() or ()) == 500
    assert states.pages_read == 5


def test_missing_execution_is_none_and_other_errors_are_raised() -> None:
    assert history_of(States([], error="ExecutionDoesNotExist")).read_new() is None
    with pytest.raises(ServiceError, match="AccessDenied"):
        history_of(States([], error="AccessDenied")).read_new()
