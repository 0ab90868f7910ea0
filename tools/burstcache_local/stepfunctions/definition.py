"""Definitions, checked when a machine is made: whatever this interpreter does not run is refused by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from burstcache_local.stepfunctions import expressions
from burstcache_local.stepfunctions.errors import ApiError

State = dict[str, Any]
TOKEN_SUFFIX = ".waitForTaskToken"

_MACHINE = {"Comment", "QueryLanguage", "StartAt", "States"}
_STATES = {
    "Task": {
        "Resource", "Arguments", "Output", "Assign", "Retry", "Catch",
        "TimeoutSeconds", "HeartbeatSeconds", "Next", "End",
    },
    "Choice": {"Choices", "Default", "Output", "Assign"},
    "Wait": {"Seconds", "Timestamp", "Output", "Assign", "Next", "End"},
    "Succeed": {"Output"},
    "Fail": {"Error", "Cause"},
}  # fmt: skip
_PARTS = {
    "Choices": {"Comment", "Condition", "Output", "Assign", "Next"},
    "Catch": {"Comment", "ErrorEquals", "Output", "Assign", "Next"},
    "Retry": {
        "Comment", "ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "JitterStrategy",
    },
}  # fmt: skip


def parse(text: str, integrations: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Return a definition that can be run.

    Args:
        text: The definition in Amazon States Language.
        integrations: Names of the supported arguments by resource, without `arn:aws:states:::` and the suffix of a
            task with a token.

    Raises:
        ApiError: `InvalidDefinition`; the message names the state and what is wrong with it.
    """
    try:
        definition = json.loads(text)
        _check_machine(definition)
        for name, state in definition["States"].items():
            _check_state(name, state, definition["States"], integrations)
    except ValueError as error:
        raise ApiError("InvalidDefinition", f"Invalid State Machine Definition: '{error}'") from error
    return dict(definition)


def resource_of(state: State) -> tuple[str, bool]:
    """Return a task's resource without its prefix and suffix, and whether the task waits for its token."""
    resource = str(state["Resource"]).removeprefix("arn:aws:states:::")
    return resource.removesuffix(TOKEN_SUFFIX), resource.endswith(TOKEN_SUFFIX)


def _check_machine(definition: Any) -> None:
    if not isinstance(definition, dict) or not isinstance(definition.get("States"), dict):
        raise ValueError("a definition is an object with States")
    _refuse_unknown("the machine", definition, _MACHINE)
    if definition.get("QueryLanguage") != "JSONata":
        raise ValueError("QueryLanguage: only JSONata is supported")
    if definition.get("StartAt") not in definition["States"]:
        raise ValueError(f"StartAt: there is no state {definition.get('StartAt')!r}")


def _check_state(
    name: str, state: State, states: Mapping[str, State], integrations: Mapping[str, Collection[str]]
) -> None:
    fields = _STATES.get(state.get("Type", ""))
    if fields is None:
        raise ValueError(f"{name}: states of type {state.get('Type')!r} are not supported")
    _refuse_unknown(name, state, {"Type", "Comment", *fields})
    for part, known in _PARTS.items():
        for each in state.get(part, ()):
            _refuse_unknown(f"{name}.{part}", each, known)
    if "Resource" in fields:
        _check_task(name, state, integrations)
    if "Next" in fields and ("Next" in state) == ("End" in state):
        raise ValueError(f"{name}: a state of this type has either Next or End")
    for target in _targets(state):
        if target not in states:
            raise ValueError(f"{name}: there is no state {target!r}")
    try:
        expressions.check(state)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _check_task(name: str, state: State, integrations: Mapping[str, Collection[str]]) -> None:
    resource, _ = resource_of(state)
    if resource not in integrations:
        raise ValueError(f"{name}: the resource {state['Resource']!r} is not supported")
    _refuse_unknown(f"{name}.Arguments", state.get("Arguments", {}), integrations[resource])


def _targets(state: State) -> Iterator[str]:
    for part in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        yield from (part[field] for field in ("Next", "Default") if field in part)


def _refuse_unknown(place: str, given: Collection[str], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{place}: {', '.join(unknown)} is not supported")
