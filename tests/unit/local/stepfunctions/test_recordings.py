"""Histories have the events that AWS records: their types, order, predecessors and what they say of errors.

Source:
    Recordings of AWS of 2024 and 2025 in LocalStack's public snapshot files, localstack/localstack,
    tests/aws/services/stepfunctions/v2: base, callback, timeouts, error_handling, test_sfn_api.
"""

from __future__ import annotations

import asyncio
from typing import Any

from support.machine_stage import CAUGHT, INVOKE, TOKEN, MachineStage, States, catch, raise_, task

_LAMBDA = {"resourceType": "lambda", "resource": "invoke"}
_LAMBDA_TOKEN = {"resourceType": "lambda", "resource": "invoke.waitForTaskToken"}


def _recorded(stage: MachineStage, states: States) -> list[dict[str, Any]]:
    events = stage.events(stage.run(states)["executionArn"])
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    return events


def _types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def _details(event: dict[str, Any]) -> dict[str, Any]:
    (name,) = (name for name in event if name.endswith("EventDetails"))
    return dict(event[name])


def test_events_of_a_task_and_their_predecessors(stage: MachineStage) -> None:
    events = _recorded(stage, {"A": task()})

    assert _types(events) == [
        "ExecutionStarted",
        "TaskStateEntered",
        "TaskScheduled",
        "TaskStarted",
        "TaskSucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ]
    assert [event["previousEventId"] for event in events] == [0, 0, 2, 3, 4, 5, 6]
    assert events[1]["stateEnteredEventDetails"] == {"name": "A", "input": "{}"}
    assert _details(events[3]) == _LAMBDA
    assert events[5]["stateExitedEventDetails"]["name"] == "A"
    assert "executionSucceededEventDetails" in events[6]


def test_failure_from_outside_is_the_failure_of_the_execution(stage: MachineStage) -> None:
    stage.function = lambda payload: stage.states.answer(
        "SendTaskFailure", {"taskToken": payload["token"], "error": "Failure error", "cause": "Failure cause"}
    )

    events = _recorded(stage, {"A": task(INVOKE + TOKEN)})

    told = {"error": "Failure error", "cause": "Failure cause"}
    assert _types(events)[4:] == ["TaskSubmitted", "TaskFailed", "ExecutionFailed"]
    assert _details(events[5]) == _LAMBDA_TOKEN | told
    assert _details(events[6]) == told


def test_lost_heartbeat_is_recorded_as_a_time_out_without_a_cause(stage: MachineStage) -> None:
    events = _recorded(stage, {"A": task(INVOKE + TOKEN, TimeoutSeconds=600, HeartbeatSeconds=5)})

    assert _types(events)[2:] == ["TaskScheduled", "TaskStarted", "TaskSubmitted", "TaskTimedOut", "ExecutionFailed"]
    scheduled = _details(events[2])
    assert (scheduled["timeoutInSeconds"], scheduled["heartbeatInSeconds"]) == (600, 5)
    assert _details(events[5]) == _LAMBDA_TOKEN | {"error": "States.Timeout"}
    assert _details(events[6]) == {"error": "States.Timeout"}


def test_time_out_of_a_function_is_recorded_without_a_cause(stage: MachineStage) -> None:
    stage.function = lambda payload: asyncio.sleep(10)

    events = _recorded(stage, {"A": task(TimeoutSeconds=1)})

    assert _details(events[-2]) == _LAMBDA | {"error": "States.Timeout"}
    assert _details(events[-1]) == {"error": "States.Timeout"}


def test_caught_error_leaves_an_exit_with_error_and_cause(stage: MachineStage) -> None:
    stage.function = lambda payload: raise_("CustomException", "{}")

    events = _recorded(stage, {"A": task(**catch("CustomException")), **CAUGHT})

    assert _types(events)[4:] == [
        "TaskFailed",
        "TaskStateExited",
        "SucceedStateEntered",
        "SucceedStateExited",
        "ExecutionSucceeded",
    ]
    assert _details(events[5]) == {"name": "A", "output": '{"Error": "CustomException", "Cause": "{}"}'}


def test_expression_that_fails_leaves_a_task_unscheduled(stage: MachineStage) -> None:
    events = _recorded(stage, {"A": task(Arguments={"FunctionName": "{% $states.input.none %}"})})

    assert _types(events) == ["ExecutionStarted", "TaskStateEntered", "EvaluationFailed", "ExecutionFailed"]
    assert _details(events[3])["error"] == "States.QueryEvaluationError"


def test_fail_state_has_no_exit(stage: MachineStage) -> None:
    events = _recorded(stage, {"A": {"Type": "Fail"}})

    assert _types(events) == ["ExecutionStarted", "FailStateEntered", "ExecutionFailed"]
    assert _details(events[2]) == {}


def test_stopped_wait_ends_in_an_abort_without_a_predecessor(stage: MachineStage) -> None:
    async def work() -> str:
        execution = stage.start(stage.create({"A": {"Type": "Wait", "Seconds": 60, "End": True}}))
        await asyncio.sleep(1)
        stage.states.answer("StopExecution", {"executionArn": execution})
        return execution

    events = stage.events(stage.do(work()))

    assert _types(events) == ["ExecutionStarted", "WaitStateEntered", "ExecutionAborted"]
    assert (events[2]["previousEventId"], _details(events[2])) == (0, {})
