"""State machine definitions and their validation. Errors name unsupported fields."""

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
# If a state, or a part of a state, supports any field of a set, it must have exactly one field of that set.
_ONE_OF = (
    {"Next", "End"}, {"Resource"}, {"Choices"}, {"Seconds", "Timestamp"}, {"Condition"}, {"ErrorEquals"},
)  # fmt: skip

# The Amazon States Language requires these lists to be non-empty.
_NOT_EMPTY = frozenset({"Choices", "ErrorEquals"})


def parse(text: str, integrations: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Parse and validate a definition.

    Args:
        text: The definition in Amazon States Language.
        integrations: Resource → supported arguments. Resources lack the prefix `arn:aws:states:::` and `TOKEN_SUFFIX`.

    Raises:
        ApiError: `InvalidDefinition`. The message has the state and the mistake.
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
    """Return a task's resource without prefix and suffix, and whether the task waits for a token."""
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
    for part, allowed in _PARTS.items():
        for each in state.get(part, ()):
            _check_fields(f"{name}.{part}", each, allowed)
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


def _check_fields(place: str, fields: Mapping[str, Any], allowed: Collection[str]) -> None:
    _refuse_unknown(place, fields, allowed)
    for name in _NOT_EMPTY.intersection(fields):
        if not fields[name]:
            raise ValueError(f"{place}: expected at least one entry in {name}")
    for names in _ONE_OF:
        if (accepted := names.intersection(allowed)) and len(accepted.intersection(fields)) != 1:
            raise ValueError(f"{place}: expected {' or '.join(sorted(accepted))}")


def _check_errors(place: str, error_lists: list[list[str]]) -> None:
    """Reject a wildcard that would shadow later retriers or catchers."""
    for i, names in enumerate(error_lists, start=1):
        if "States.ALL" in names and (len(names) > 1 or i < len(error_lists)):
            raise ValueError(f"{place}: States.ALL must be the only error, and in the last entry")


def _targets(state: State) -> Iterator[str]:
    for part in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        yield from (part[field] for field in ("Next", "Default") if field in part)


def _refuse_unknown(place: str, fields: Collection[str], allowed: Collection[str]) -> None:
    if unknown := sorted(set(fields) - set(allowed)):
        raise ValueError(f"{place}: {', '.join(unknown)} is not supported")
