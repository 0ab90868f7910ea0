"""No linter looks inside a `DefinitionUri` file: what the machines promise is checked here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from burstcache.core import errors
from burstcache.core.prices import price_sheet
from burstcache.core.worth import tier_prices
from support.project import ROOT

_ROOT = ROOT
_MACHINES = {
    path.name.removesuffix(".asl.json"): json.loads(path.read_text())
    for path in sorted((_ROOT / "statemachines").glob("*.asl.json"))
}
_STATES = [(machine, name) for machine, definition in _MACHINES.items() for name in definition["States"]]
_KEY_STATES = {"Lambda", "RestrictedLambda", "RedisBootup", "RedisRunning", "RedisShutdown"}
# What passes by itself in a step that a function takes: AWS's best practices, what a dead runtime is called, our own.
_PASSING = {
    "Lambda.ClientExecutionTimeoutException", "Lambda.ServiceException", "Lambda.AWSLambdaException",
    "Lambda.SdkClientException", "Lambda.TooManyRequestsException", "Lambda.ResourceNotReadyException",
    "Lambda.ENINotReadyException", "Lambda.Unknown",
    "ContendedRowTransientError", "ServiceTransientError",
}  # fmt: skip
_SERVICE_ERRORS = re.compile(r"(States|Lambda|Runtime|Sandbox|DynamoDb|StepFunctions)\.\w+")


# A regular outcome is an answer and a Choice. What a Catch leads away from a failure's path is no failed invocation.
_CAUGHT_WITHOUT_FAILURE = {
    "SupersededError",  # a race that another execution has won
    "NodeFailedError", "InvocationEndsTransientError", "States.Timeout",  # by a task's token, or by none
    "DynamoDb.ConditionalCheckFailedException",
}  # fmt: skip


def _successors(state: dict[str, Any]) -> Iterator[str]:
    yield from (part["Next"] for part in (state, *state.get("Choices", ()), *state.get("Catch", ())) if "Next" in part)
    if "Default" in state:
        yield state["Default"]


def _paths(machine: str, start: str) -> Iterator[list[str]]:
    """Yield the successful ways (no Catch) from a state to an end, each state once."""
    states = _MACHINES[machine]["States"]

    def walk(name: str, way: list[str]) -> Iterator[list[str]]:
        state = states[name]
        after = [part["Next"] for part in (state, *state.get("Choices", ())) if "Next" in part]
        after += [state["Default"]] if "Default" in state else []
        if not after:
            yield [*way, name]
        for following in after:
            if following not in way:
                yield from walk(following, [*way, name])

    yield from walk(start, [])


def _transitions(machine: str, start: str, end: str) -> int:
    """Return the number of states entered on the shortest path from after `start` to `end`."""
    states = _MACHINES[machine]["States"]
    reached, entered = set(_successors(states[start])), 1
    while end not in reached:
        reached, entered = {after for name in reached for after in _successors(states[name])}, entered + 1
    return entered


def test_policies_weigh_as_many_transitions_as_the_machines_have() -> None:
    sheet = price_sheet("today-us-east-1")
    prices, transition_usd = tier_prices(sheet, node_type="t4g.micro", cache_memory_mb=256), sheet.usd("transition")
    to_the_first_look = 1 + _transitions("redis_node", "BootNode", "CheckNodeUse")
    run = to_the_first_look + _transitions("redis_node", "CheckNodeUse", "StopNode")
    look = _transitions("redis_node", "CheckNodeUse", "CheckNodeUse")
    life = 2 + _transitions("key_lifecycle", "Lambda", "ReturnToS3")  # the start and `Lambda`

    assert prices.run_usd == run * transition_usd
    assert prices.check_usd == look * transition_usd
    assert prices.life_usd == life * transition_usd + sheet.usd("lambda-request")


@pytest.fixture(params=_STATES, ids="/".join)
def state(request: pytest.FixtureRequest) -> dict[str, Any]:
    machine, name = request.param
    return dict(_MACHINES[machine]["States"][name])


@pytest.mark.parametrize("machine", _MACHINES)
def test_every_target_exists_and_every_state_is_reached(machine: str) -> None:
    states = _MACHINES[machine]["States"]
    reached, open_ = set(), {_MACHINES[machine]["StartAt"]}

    while open_:
        reached |= open_
        open_ = {after for name in open_ for after in _successors(states[name])} - reached

    assert reached == set(states)


@pytest.mark.parametrize("machine", _MACHINES)
def test_machine_is_jsonata_with_a_comment(machine: str) -> None:
    assert _MACHINES[machine]["QueryLanguage"] == "JSONata"
    assert _MACHINES[machine]["Comment"]


@pytest.mark.parametrize(("machine", "name"), _STATES)
def test_state_names_follow_the_house(machine: str, name: str) -> None:
    kind = _MACHINES[machine]["States"][name]["Type"]

    assert re.fullmatch(r"([A-Z][a-z0-9]*)+", name)
    if kind == "Choice":
        assert name.startswith("Is")
    if kind == "Fail":
        assert name.endswith("Failed")


def test_the_lifes_states_carry_the_thesis_names() -> None:
    assert set(_MACHINES["key_lifecycle"]["States"]) >= _KEY_STATES


def test_every_state_has_a_comment(state: dict[str, Any]) -> None:
    assert state.get("Comment")


def test_every_task_has_a_timeout_and_a_way_out_of_failure(state: dict[str, Any]) -> None:
    if state["Type"] == "Task":
        assert isinstance(state["TimeoutSeconds"], int)
        assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


def test_retries_name_their_errors_and_only_passing_ones(state: dict[str, Any]) -> None:
    for retry in state.get("Retry", ()):
        for name in retry["ErrorEquals"]:
            assert name != "States.ALL"
            assert name.endswith("TransientError") or _SERVICE_ERRORS.fullmatch(name)


def test_steps_of_functions_are_repeated_after_what_passes_by_itself(state: dict[str, Any]) -> None:
    if "FunctionName" in state.get("Arguments", {}):
        named = {name for retry in state["Retry"] for name in retry["ErrorEquals"]}
        assert "States.TaskFailed" in named or named >= _PASSING


def test_no_failure_ends_under_a_name_of_step_functions_or_without_a_cause(state: dict[str, Any]) -> None:
    for catch in state.get("Catch", ()):
        if failure := catch.get("Assign", {}).get("failure"):
            assert "$replace($states.errorOutput.Error, 'States.', '')" in failure["Error"]
            assert "? $states.errorOutput.Cause : '" in failure["Cause"]


def test_custom_error_names_exist(state: dict[str, Any]) -> None:
    named = [n for part in (*state.get("Retry", ()), *state.get("Catch", ())) for n in part["ErrorEquals"]]

    for name in named:
        assert _SERVICE_ERRORS.fullmatch(name) or issubclass(getattr(errors, name), errors.BurstcacheError)


def test_waiting_for_the_cache_function_needs_heartbeats() -> None:
    for name in ("Lambda", "RestrictedLambda"):
        assert _MACHINES["key_lifecycle"]["States"][name]["HeartbeatSeconds"] == 60


def test_no_number_of_more_than_15_digits_becomes_text() -> None:
    """JSONata's $string gives 15 digits: epochs are milliseconds, and microseconds are put together as text."""
    text = json.dumps(_MACHINES)

    for expression in re.findall(r"\$string\(([^{}]*?)\)", text):
        assert "_us" not in expression


@pytest.mark.parametrize(
    ("entry", "most"),
    [("Lambda", 7), ("RestrictedLambda", 7), ("RedisBootup", 5)],
    ids=["lambda", "restricted", "redis"],
)
def test_life_takes_few_transitions(entry: str, most: int) -> None:
    ways = list(_paths("key_lifecycle", entry))

    lengths = {way[-1]: 1 + len(way) for way in ways}  # IsNodeRunning comes first
    assert max(lengths.values()) <= most
    assert lengths.get("ReturnToS3", 0) <= 4


def test_every_failure_ends_as_a_failure() -> None:
    """A cleaned-up failure is still a failure."""
    for definition in _MACHINES.values():
        states = definition["States"]
        for name, body in states.items():
            if name.endswith("Failed") and body["Type"] == "Task":
                assert states[body["Next"]]["Type"] == "Fail"


def test_no_regular_outcome_is_an_error_of_a_function() -> None:
    caught = {
        name
        for definition in _MACHINES.values()
        for state in definition["States"].values()
        for catch in state.get("Catch", ())
        for name in catch["ErrorEquals"]
        if name != "States.ALL"
    }

    assert caught == _CAUGHT_WITHOUT_FAILURE
