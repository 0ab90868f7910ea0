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
# Of each of these, a state or a part that may have it has exactly one.
_ONE_OF = (
    {"Next", "End"}, {"Resource"}, {"Choices"}, {"Seconds", "Timestamp"}, {"Condition"}, {"ErrorEquals"},
)  # fmt: skip

# The Amazon States Language asks for lists that are not empty.
_NOT_EMPTY = frozenset({"Choices", "ErrorEquals"})


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
    _check_fields(name, state, {"Type", "Comment", *fields})
    for part, known in _PARTS.items():
        for each in state.get(part, ()):
            _check_fields(f"{name}.{part}", each, known)
    for part in ("Catch", "Retry"):
        _check_errors(f"{name}.{part}", [each["ErrorEquals"] for each in state.get(part, ())])
    if "Resource" in fields:
        _check_task(name, state, integrations)
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


def _check_fields(place: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    _refuse_unknown(place, given, known)
    for name in _NOT_EMPTY.intersection(given):
        if not given[name]:
            raise ValueError(f"{place}: expected at least one entry in {name}")
    for names in _ONE_OF:
        if (accepted := names.intersection(known)) and len(accepted.intersection(given)) != 1:
            raise ValueError(f"{place}: expected {' or '.join(sorted(accepted))}")


def _check_errors(place: str, taken: list[list[str]]) -> None:
    """Refuse a wildcard that would take the errors of those after it."""
    for i, names in enumerate(taken, start=1):
        if "States.ALL" in names and (len(names) > 1 or i < len(taken)):
            raise ValueError(f"{place}: States.ALL stands alone, and in the last one only")


def _targets(state: State) -> Iterator[str]:
    for part in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        yield from (part[field] for field in ("Next", "Default") if field in part)


def _refuse_unknown(place: str, given: Collection[str], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{place}: {', '.join(unknown)} is not supported")
