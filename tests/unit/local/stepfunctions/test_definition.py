"""A definition is accepted if every part of it is run, and refused by the name of the first part that is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from burstcache_local.stepfunctions.definition import parse
from burstcache_local.stepfunctions.errors import ApiError
from support.project import ROOT

_CATCH_ALL = {"ErrorEquals": ["States.ALL"], "Next": "C"}
_INTEGRATIONS = {"lambda:invoke": {"FunctionName", "Payload"}}


def _machine() -> dict[str, Any]:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
        "Arguments": {"FunctionName": "f", "Payload": "{% $states.input %}"},
        "Retry": [{"ErrorEquals": ["States.ALL"]}],
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "B"}],
        "Next": "C",
    }
    choice = {"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "B"}], "Default": "B"}
    states = {"A": task, "B": {"Type": "Fail"}, "C": choice}
    return {"QueryLanguage": "JSONata", "StartAt": "A", "States": states}


def _parse(definition: object) -> dict[str, Any]:
    return parse(json.dumps(definition), _INTEGRATIONS)


def test_definition_whose_parts_are_all_supported_is_accepted() -> None:
    assert _parse(_machine()) == _machine()


@pytest.mark.parametrize("path", sorted((ROOT / "statemachines").glob("*.asl.json")), ids=lambda path: path.stem)
def test_machines_of_the_project_are_accepted(path: Any) -> None:
    from burstcache_local.stepfunctions.service import INTEGRATIONS

    assert parse(path.read_text(), INTEGRATIONS)["StartAt"]


def _set(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(definition: dict[str, Any]) -> None:
        place: Any = definition
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def _without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(definition: dict[str, Any]) -> None:
        place: Any = definition
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (_set("QueryLanguage", to="JSONPath"), "QueryLanguage"),
        (_set("TimeoutSeconds", to=1), "the machine: TimeoutSeconds"),
        (_set("StartAt", to="Z"), "there is no state 'Z'"),
        (_set("States", "A", "Type", to="Map"), "A: states of type 'Map'"),
        (_set("States", "A", "ResultPath", to="$"), "A: ResultPath"),
        (_set("States", "A", "Resource", to="arn:aws:states:::sqs:sendMessage"), "A: the resource '.*sendMessage'"),
        (_set("States", "A", "Arguments", "TenantId", to="t"), "A.Arguments: TenantId"),
        (_set("States", "A", "Retry", 0, "Jitter", to="FULL"), "A.Retry: Jitter"),
        (_set("States", "A", "Catch", 0, "ResultPath", to="$"), "A.Catch: ResultPath"),
        (_set("States", "A", "Catch", 0, "Next", to="Z"), "A: there is no state 'Z'"),
        (_set("States", "A", "End", to=True), "A: expected End or Next"),
        (_without("States", "A", "Resource"), "A: expected Resource"),
        (_without("States", "A", "Retry", 0, "ErrorEquals"), "A.Retry: expected ErrorEquals"),
        (_without("States", "A", "Catch", 0, "Next"), "A.Catch: expected Next"),
        (
            _set("States", "A", "Retry", 0, "ErrorEquals", to=["States.ALL", "Mine"]),
            "A.Retry: States.ALL must be the only error",
        ),
        (_set("States", "A", "Catch", to=[_CATCH_ALL, _CATCH_ALL]), "A.Catch: .* in the last entry"),
        (_without("States", "C", "Choices"), "C: expected Choices"),
        (_set("States", "C", "Choices", to=[]), "C: expected at least one entry in Choices"),
        (_set("States", "A", "Retry", 0, "ErrorEquals", to=[]), "A.Retry: expected at least one entry in ErrorEquals"),
        (_without("States", "C", "Choices", 0, "Next"), "C.Choices: expected Next"),
        (_set("States", "C", to={"Type": "Wait", "End": True}), "C: expected Seconds or Timestamp"),
        (_set("States", "C", "Choices", 0, "Variable", to="$.a"), "C.Choices: Variable"),
        (_set("States", "C", "Default", to="Z"), "C: there is no state 'Z'"),
        (_set("States", "C", "Choices", 0, "Condition", to="{% 1 + %}"), "C: the JSONata expression '{% 1 [+] %}'"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(change: Callable[[dict[str, Any]], None], culprit: str) -> None:
    definition = _machine()
    change(definition)

    with pytest.raises(ApiError, match=culprit) as refused:
        _parse(definition)

    assert refused.value.code == "InvalidDefinition"


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(ApiError, match="Invalid State Machine Definition"):
        parse("{", _INTEGRATIONS)
