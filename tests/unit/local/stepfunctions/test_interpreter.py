"""States, errors, tokens and executions do what the Amazon States Language and the API's reference say."""

from __future__ import annotations

import asyncio
import hashlib
import math
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from burstcache_local.stepfunctions.errors import ApiError
from burstcache_local.stepfunctions.execution import Execution
from support.machine_stage import CAUGHT, INVOKE, TOKEN, MachineStage, States, catch, failing, raise_, retry, task

# ---- values


def test_output_is_the_result_unless_the_state_says_otherwise(stage: MachineStage) -> None:
    stage.function = lambda payload: {"n": 1}

    assert stage.output({"A": task()})["Payload"] == {"n": 1}
    assert stage.output({"A": task(Output="{% $states.result.Payload.n + 1 %}")}) == 2


def test_expressions_see_the_input_the_context_and_what_states_have_assigned(stage: MachineStage) -> None:
    states: States = {
        "A": {"Type": "Wait", "Seconds": 0, "Assign": {"seen": "{% $states.input.a %}"}, "Next": "B"},
        "B": {
            "Type": "Succeed",
            "Output": ["{% $seen %}", "{% $states.context.State.Name %}", "{% $states.context.Execution.Input %}"],
        },
    }

    assert stage.output(states, {"a": 'a "quoted" \\ text'}) == ['a "quoted" \\ text', "B", {"a": 'a "quoted" \\ text'}]


def test_values_assigned_in_a_state_are_seen_from_the_next_state_on(stage: MachineStage) -> None:
    states: States = {
        "A": {"Type": "Wait", "Seconds": 0, "Assign": {"x": 1}, "Next": "B"},
        "B": {"Type": "Wait", "Seconds": 0, "Assign": {"x": "{% $x + 1 %}"}, "Output": "{% $x %}", "End": True},
    }

    assert stage.output(states) == 1


def test_null_is_a_value_and_nothing_is_an_error(stage: MachineStage) -> None:
    assert stage.output({"A": {"Type": "Succeed", "Output": {"a": "{% $states.input.a %}"}}}, {"a": None}) == {
        "a": None
    }

    described = stage.run({"A": {"Type": "Succeed", "Output": "{% $states.input.a %}"}})

    assert (described["status"], described["error"]) == ("FAILED", "States.QueryEvaluationError")
    assert "nothing" in described["cause"]


def test_hash_uuid_and_millis_are_functions(stage: MachineStage) -> None:
    now_ms = stage.clock.now_us() // 1000

    made = stage.output({"A": {"Type": "Succeed", "Output": ["{% $hash('a') %}", "{% $uuid() %}", "{% $millis() %}"]}})

    assert made[0] == hashlib.sha256(b"a").hexdigest()
    assert len(made[1]) == 36
    assert made[2] == now_ms


def test_failed_expression_of_a_task_is_an_error_that_can_be_caught(stage: MachineStage) -> None:
    asked = task(Arguments={"FunctionName": "{% $number('none') %}"}, **catch("States.QueryEvaluationError"))

    assert stage.output({"A": asked, **CAUGHT})["Error"] == "States.QueryEvaluationError"


# ---- states


def test_choice_takes_the_first_rule_that_holds_with_its_own_output(stage: MachineStage) -> None:
    rules = [
        {"Condition": "{% $states.input.n > 5 %}", "Output": "large", "Next": "End"},
        {"Condition": "{% $states.input.n > 1 %}", "Output": "middle", "Next": "End"},
    ]
    states: States = {
        "A": {"Type": "Choice", "Choices": rules, "Default": "End", "Output": "small"},
        "End": {"Type": "Succeed"},
    }

    assert [stage.output(states, {"n": n}) for n in (9, 3, 0)] == ["large", "middle", "small"]


def test_choice_without_a_rule_that_holds_and_without_a_default_fails(stage: MachineStage) -> None:
    states: States = {
        "A": {"Type": "Choice", "Choices": [{"Condition": "{% false %}", "Next": "B"}]},
        "B": {"Type": "Succeed"},
    }

    assert stage.run(states)["error"] == "States.NoChoiceMatched"


def test_wait_lasts_its_seconds_or_until_its_instant(stage: MachineStage) -> None:
    at = datetime.fromtimestamp(stage.clock.now_us() / 1e6 + 2.5, UTC).isoformat()

    assert stage.seconds({"A": {"Type": "Wait", "Timestamp": at, "End": True}}) == pytest.approx(2.5, abs=0.02)
    assert stage.seconds({"A": {"Type": "Wait", "Timestamp": "2020-01-01T00:00:00Z", "End": True}}) == pytest.approx(
        0, abs=0.02
    )
    assert stage.seconds(
        {"A": {"Type": "Wait", "Seconds": "{% $states.input.s %}", "End": True}}, {"s": 7}
    ) == pytest.approx(7, abs=0.02)


@pytest.mark.parametrize(
    "state",
    [
        {"Type": "Wait", "Seconds": "{% -1 %}", "End": True},
        {"Type": "Wait", "Seconds": "{% '7' %}", "End": True},
        {"Type": "Wait", "Timestamp": "{% '2025-11-20T10:00:00' %}", "End": True},
        {"Type": "Choice", "Choices": [{"Condition": "{% 'yes' %}", "Next": "A"}]},
        task(TimeoutSeconds="{% 1e9 %}"),
    ],
)
def test_value_of_a_wrong_type_or_out_of_range_is_an_error_of_its_expression(
    stage: MachineStage, state: dict[str, Any]
) -> None:
    assert stage.run({"A": state})["error"] == "States.QueryEvaluationError"


def test_fail_ends_the_execution_with_its_error_and_cause(stage: MachineStage) -> None:
    described = stage.run({"A": {"Type": "Fail", "Error": "{% 'Mine' %}", "Cause": "because"}})

    assert (described["status"], described["error"], described["cause"]) == ("FAILED", "Mine", "because")


# ---- errors of tasks


def test_retries_come_after_growing_delays_and_end_in_the_catcher(stage: MachineStage) -> None:
    stage.function = lambda payload: raise_("Again", "as ever")
    asked = task(**retry("Again", IntervalSeconds=2, MaxAttempts=3, BackoffRate=2), **catch("Again"))

    assert stage.output({"A": asked, **CAUGHT}) == {"Error": "Again", "Cause": "as ever"}
    assert len(stage.payloads) == 4
    assert stage.clock.monotonic_s() == pytest.approx(2 + 4 + 8, abs=0.02)


def test_delay_has_a_ceiling_and_full_jitter_stays_below_it(stage: MachineStage) -> None:
    stage.function = failing("Again", "Again", "Again")

    assert stage.seconds({"A": task(**retry("Again", IntervalSeconds=10, MaxDelaySeconds=12))}) == pytest.approx(
        34, abs=0.02
    )

    stage.function = failing("Again")
    assert stage.seconds({"A": task(**retry("Again", IntervalSeconds=10, JitterStrategy="FULL"))}) < 10.02


def test_each_retrier_counts_its_own_attempts(stage: MachineStage) -> None:
    stage.function = failing("One", "Two", "One")
    retriers = [{"ErrorEquals": [name], "MaxAttempts": 1} for name in ("One", "Two")]

    assert stage.run({"A": task(Retry=retriers)})["error"] == "One"
    assert len(stage.payloads) == 3


def test_task_failed_stands_for_every_error_but_a_time_out(stage: MachineStage) -> None:
    stage.function = lambda payload: raise_("Mine")
    asked = task(**catch("States.TaskFailed"))
    assert stage.output({"A": asked, **CAUGHT})["Error"] == "Mine"

    stage.function = lambda payload: asyncio.sleep(5)
    assert stage.run({"A": {**asked, "TimeoutSeconds": 1}, **CAUGHT})["error"] == "States.Timeout"


@pytest.mark.parametrize("name", ["States.Runtime", "States.DataLimitExceeded"])
@pytest.mark.parametrize("wildcard", ["States.ALL", "States.TaskFailed"])
def test_no_wildcard_stands_for_an_error_that_ends_every_execution(
    stage: MachineStage, name: str, wildcard: str
) -> None:
    stage.function = lambda payload: raise_(name)

    assert stage.run({"A": task(**catch(wildcard)), **CAUGHT})["error"] == name


def test_task_that_takes_too_long_times_out_without_a_cause(stage: MachineStage) -> None:
    stage.function = lambda payload: asyncio.sleep(5)

    assert stage.output({"A": task(TimeoutSeconds=3, **catch("States.Timeout")), **CAUGHT}) == {
        "Error": "States.Timeout",
        "Cause": "",
    }
    assert stage.clock.monotonic_s() == pytest.approx(3, abs=0.02)


# ---- tokens


def _token_task(**more: Any) -> dict[str, Any]:
    return task(INVOKE + TOKEN, **more)


def _refusal(stage: MachineStage, action: str, token: str, **more: Any) -> str:
    try:
        stage.states.answer(action, {"taskToken": token, **more})
    except ApiError as error:
        return error.code
    return ""


def test_token_ends_its_task_with_an_output_or_an_error(stage: MachineStage) -> None:
    def complete(payload: Any) -> None:
        stage.states.answer("SendTaskSuccess", {"taskToken": payload["token"], "output": '{"a": 1}'})

    def fail(payload: Any) -> None:
        stage.states.answer("SendTaskFailure", {"taskToken": payload["token"], "error": "Mine", "cause": "because"})

    stage.function = complete  # before the task waits
    assert stage.output({"A": _token_task(HeartbeatSeconds=5)}) == {"a": 1}

    stage.function = fail
    described = stage.run({"A": _token_task()})
    assert (described["error"], described["cause"]) == ("Mine", "because")


def test_an_outcome_from_before_the_task_waits_stands_although_its_call_outlasts_the_time_out(
    stage: MachineStage,
) -> None:
    async def complete_and_go_on(payload: Any) -> None:
        stage.states.answer("SendTaskSuccess", {"taskToken": payload["token"], "output": '"in time"'})
        await asyncio.sleep(20)

    stage.function = complete_and_go_on

    assert stage.output({"A": _token_task(TimeoutSeconds=10)}) == "in time"


def test_lost_heartbeat_is_a_time_out_without_a_cause(stage: MachineStage) -> None:
    for name in ("States.Timeout", "States.HeartbeatTimeout", "States.ALL"):
        asked = _token_task(TimeoutSeconds=100, HeartbeatSeconds=10, **catch(name))
        assert stage.output({"A": asked, **CAUGHT}) == {"Error": "States.Timeout", "Cause": ""}

    assert stage.clock.monotonic_s() == pytest.approx(30, abs=0.1)


def test_token_is_refused_from_the_instant_at_which_its_heartbeat_is_due(stage: MachineStage) -> None:
    refusals: list[str] = []

    def send(action: str, token: str, more: dict[str, Any]) -> None:
        refusals.append(_refusal(stage, action, token, **more))

    async def work() -> dict[str, Any]:
        due_s = stage.loop.time() + 10
        execution = stage.start(stage.create({"A": _token_task(HeartbeatSeconds=10)}))
        await asyncio.sleep(0.1)
        token, at_once_s = stage.payloads[0]["token"], math.nextafter(due_s, math.inf)
        for action, more in (("SendTaskHeartbeat", {}), ("SendTaskSuccess", {"output": "{}"})):
            stage.loop.call_at(at_once_s, send, action, token, more)
        return await stage.ended(execution)

    assert stage.do(work())["error"] == "States.Timeout"
    assert refusals == ["TaskTimedOut", "TaskTimedOut"]


@pytest.mark.parametrize("limit", ["HeartbeatSeconds", "TimeoutSeconds"])
def test_of_a_time_out_and_an_outcome_in_one_instant_the_first_counts_and_the_other_is_refused(
    stage: MachineStage, limit: str
) -> None:
    """The outcome's timer is due right before the limit's or right after it, and both are taken in one round."""
    refusals: list[str] = []

    def succeed(token: str) -> None:
        refusals.append(_refusal(stage, "SendTaskSuccess", token, output='"in time"'))

    async def work(towards_s: float) -> dict[str, Any]:
        due_s = stage.loop.time() + 10
        execution = stage.start(stage.create({"A": _token_task(**{limit: 10})}))
        await asyncio.sleep(0.1)
        stage.loop.call_at(math.nextafter(due_s, towards_s), succeed, stage.payloads[-1]["token"])
        return await stage.ended(execution)

    early, late = (stage.do(work(towards_s)) for towards_s in (0, math.inf))

    assert refusals == ["", "TaskTimedOut"]
    assert (early["status"], early.get("output")) == ("SUCCEEDED", '"in time"')
    assert (late["status"], late.get("error")) == ("FAILED", "States.Timeout")


def test_heartbeats_keep_a_task_alive_until_its_time_out(stage: MachineStage) -> None:
    async def work() -> str:
        execution = stage.start(stage.create({"A": _token_task(TimeoutSeconds=60, HeartbeatSeconds=10)}))
        await asyncio.sleep(0.1)
        for _ in range(8):
            await asyncio.sleep(7)
            stage.states.answer("SendTaskHeartbeat", {"taskToken": stage.payloads[0]["token"]})
        described = await stage.ended(execution)
        return f"{described['error']} after {(described['stopDate'] - described['startDate']).total_seconds():.0f} s"

    assert stage.do(work()) == "States.Timeout after 60 s"


def test_every_attempt_has_a_token_of_its_own_and_a_closed_one_is_refused(stage: MachineStage) -> None:
    async def work() -> None:
        machine = stage.create({"A": _token_task(TimeoutSeconds=20, **retry("Again", MaxAttempts=1))})
        execution = stage.start(machine)
        await asyncio.sleep(0.1)
        first = stage.payloads[0]["token"]
        assert _refusal(stage, "SendTaskHeartbeat", first) == ""  # although the task asks for none
        assert _refusal(stage, "SendTaskFailure", first, error="Again") == ""
        assert _refusal(stage, "SendTaskSuccess", first, output="{}") == "TaskTimedOut"
        await asyncio.sleep(2)
        second = stage.payloads[1]["token"]
        assert (await stage.ended(execution))["error"] == "States.Timeout"
        for token in (first, second):
            assert _refusal(stage, "SendTaskHeartbeat", token) == "TaskTimedOut"

    stage.do(work())
    assert _refusal(stage, "SendTaskSuccess", "never one", output="{}") == "InvalidToken"
    assert _refusal(stage, "SendTaskSuccess", stage.payloads[0]["token"], output="{") == "InvalidOutput"


def test_token_of_another_world_does_not_exist(stage: MachineStage) -> None:
    other = MachineStage()
    other.run({"A": _token_task(TimeoutSeconds=1)})
    other.loop.close()

    assert _refusal(stage, "SendTaskSuccess", other.payloads[0]["token"], output="{}") == "TaskDoesNotExist"


# ---- executions


def test_repeated_start_finds_the_live_execution_if_its_input_is_the_same(stage: MachineStage) -> None:
    async def work() -> None:
        machine = stage.create({"A": {"Type": "Wait", "Seconds": 5, "End": True}})
        first = stage.start(machine, {"a": 1}, "name")

        assert stage.start(machine, {"a": 1}, "name") == first
        with pytest.raises(ApiError, match="Already Exists"):
            stage.start(machine, {"a": 2}, "name")
        await stage.ended(first)
        with pytest.raises(ApiError, match="Already Exists"):
            stage.start(machine, {"a": 1}, "name")
        assert stage.start(machine) != stage.start(machine)

    stage.do(work())


def test_integration_that_breaks_fails_the_execution(stage: MachineStage) -> None:
    def break_down(payload: Any) -> None:
        raise KeyError("missing")

    stage.function = break_down

    described = stage.run({"A": task(**catch("States.ALL")), **CAUGHT})

    assert (described["error"], described["cause"]) == ("States.Runtime", "KeyError('missing')")


def test_stopped_execution_ends_at_once_and_closes_its_token(stage: MachineStage) -> None:
    async def work() -> None:
        execution = stage.start(stage.create({"A": _token_task(**catch("States.ALL")), **CAUGHT}))
        await asyncio.sleep(1)
        stage.states.answer("StopExecution", {"executionArn": execution, "error": "Stopped", "cause": "by hand"})

        described = stage.states.answer("DescribeExecution", {"executionArn": execution})
        assert (described["status"], described["error"], described["cause"]) == ("ABORTED", "Stopped", "by hand")
        await asyncio.sleep(1)
        assert _refusal(stage, "SendTaskSuccess", stage.payloads[0]["token"], output="{}") == "TaskTimedOut"
        assert stage.events(execution)[-1]["type"] == "ExecutionAborted"
        assert stage.states.answer("DescribeExecution", {"executionArn": execution})["status"] == "ABORTED"

    stage.do(work())


def test_execution_can_be_killed_between_two_states(stage: MachineStage) -> None:
    def kill(execution: Execution, state: str) -> None:
        if state == "B":
            execution.stop("Killed")

    stage.states.on_enter = kill
    described = stage.run({"A": {"Type": "Wait", "Seconds": 1, "Next": "B"}, "B": task()})

    assert (described["status"], described["error"], stage.payloads) == ("ABORTED", "Killed", [])
    entered = [
        event["stateEnteredEventDetails"]["name"]
        for event in stage.events(described["executionArn"])
        if "stateEnteredEventDetails" in event
    ]
    assert entered == ["A"]


def test_task_starts_an_execution_and_hears_by_name_why_it_cannot(stage: MachineStage) -> None:
    machine = stage.create({"A": {"Type": "Succeed"}})

    def start(arn: str) -> dict[str, Any]:
        arguments = {"StateMachineArn": arn, "Name": "child", "Input": {"a": 1}}
        return {"A": {**task("arn:aws:states:::states:startExecution"), "Arguments": arguments}}

    started = stage.output(start(machine))
    assert stage.states.answer("DescribeExecution", {"executionArn": started["ExecutionArn"]})["input"] == '{"a": 1}'
    assert stage.run(start(machine))["error"] == "StepFunctions.ExecutionAlreadyExistsException"
    assert stage.run(start(machine + "-none"))["error"] == "StepFunctions.StateMachineDoesNotExistException"


def test_lists_and_histories_come_in_pages(stage: MachineStage) -> None:
    machine = stage.create({"A": {"Type": "Succeed"}})

    async def work() -> None:
        for number in range(3):
            await stage.ended(stage.start(machine, name=f"e{number}"))

    stage.do(work())
    asked = {"stateMachineArn": machine, "statusFilter": "SUCCEEDED", "maxResults": 2}
    first = stage.states.answer("ListExecutions", asked)
    second = stage.states.answer("ListExecutions", {**asked, "nextToken": first["nextToken"]})

    assert [execution["name"] for page in (first, second) for execution in page["executions"]] == ["e2", "e1", "e0"]
    assert "nextToken" not in second
    newest = stage.events(first["executions"][0]["executionArn"], reverseOrder=True, maxResults=1)
    assert [event["type"] for event in newest] == ["ExecutionSucceeded"]


def test_executions_that_are_over_take_little_memory_and_keep_their_history(stage: MachineStage) -> None:
    states: States = {f"S{n}": {"Type": "Wait", "Seconds": 1, "Next": f"S{n + 1}"} for n in range(20)}
    states["S20"] = {"Type": "Succeed"}
    machine, given, count = stage.create(states), {"key": "k" * 100}, 100

    async def run(count: int) -> str:
        executions = [stage.start(machine, given) for _ in range(count)]
        for each in executions:
            await stage.ended(each)
        return executions[-1]

    stage.do(run(1))  # whatever is made once is there
    tracemalloc.start()
    last = stage.do(run(count))
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken_bytes / count < 8_000
    assert [event["id"] for event in stage.events(last)] == [*range(1, 45)]


@pytest.mark.parametrize(
    ("action", "parameters", "code"),
    [
        ("StartExecution", {"stateMachineArn": "arn:none"}, "StateMachineDoesNotExist"),
        ("DescribeExecution", {"executionArn": "arn:none"}, "ExecutionDoesNotExist"),
        ("StopExecution", {"executionArn": "arn:none"}, "ExecutionDoesNotExist"),
        ("ListExecutions", {"stateMachineArn": "arn:none"}, "StateMachineDoesNotExist"),
        ("StartSyncExecution", {}, "UnknownOperationException"),
    ],
)
def test_call_that_cannot_be_answered_is_refused_by_name(
    stage: MachineStage, action: str, parameters: Any, code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        stage.states.answer(action, parameters)

    assert refused.value.code == code


@pytest.mark.parametrize(
    ("asked", "code"), [({"name": "a/b"}, "InvalidName"), ({"input": "{"}, "InvalidExecutionInput")]
)
def test_start_with_a_bad_name_or_input_is_refused(stage: MachineStage, asked: dict[str, str], code: str) -> None:
    machine = stage.create({"A": {"Type": "Succeed"}})

    with pytest.raises(ApiError) as refused:
        stage.states.answer("StartExecution", {"stateMachineArn": machine, **asked})

    assert refused.value.code == code
