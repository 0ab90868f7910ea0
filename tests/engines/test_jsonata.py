"""JSONata in the state machines: the local run's engine evaluates each expression as the reference engine does."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.expressions import evaluate, is_expression
from engines.processes import NODE, missing
from support.project import ROOT
from support.waiting import LIMIT_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing("dynalite")), reason=missing("dynalite").replace("dynalite", "JSONata's engine")),
]

_NOW_US = 1_767_225_600_123_456
_CAUSES: tuple[dict[str, str], ...] = ({}, {"Cause": ""}, {"Cause": "the instance said: no"})
_ERRORS = ("States.Timeout", "States.TaskFailed", "Lambda.TooManyRequestsException", "NodeGoneError")
_OUTCOMES = (
    "promoted", "idle", "gone", "hot_for_30_days", "node_lost", "node_failed", "lease_lost", "used", "unsaved",
    "superseded", "unknown", None,
)  # fmt: skip


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _expressions(part)
    elif is_expression(value):
        yield value


MACHINES = [json.loads(path.read_text()) for path in sorted((ROOT / "statemachines").glob("*.asl.json"))]
EXPRESSIONS = sorted(set(_expressions(MACHINES)))


def _variables() -> Iterator[dict[str, Any]]:
    """Yield the variables of executions: every count of failures, outcome, error and cause, and inputs with gaps."""
    cases = itertools.zip_longest(range(41), itertools.product(_OUTCOMES, _CAUSES, _ERRORS), fillvalue=7)
    for failures, case in cases:
        outcome, cause, error = case if isinstance(case, tuple) else (None, {}, "")
        has_all = failures % 2 == 0
        input_ = {"node": "1", "entry": "redis", "name": "h-1", "generation": 3, "check_at_us": _NOW_US, "checks": 0}
        input_ |= {"wait_until": "2026-01-01T00:00:00Z", "wait_s": 55, "ended": 'it said "stop"\n'}
        if has_all:
            input_ |= {"queue_us": [1, 2.5, _NOW_US], "ticks": 0}
        if outcome is not None:
            input_["outcome"] = outcome
        yield {
            "states": {
                "input": input_,
                "result": {"Payload": {"outcome": "idle", "at_us": _NOW_US} if has_all else None, "StatusCode": 200},
                "errorOutput": {"Error": error, **cause},
                "context": {
                    "Execution": {
                        "Name": "h-1" if has_all else "h-2",
                        "Input": {
                            "key": "a b/ü'\"", "key_hash": "h", "epoch": failures * 10**9, "node": "1", "generation": 3,
                            "part": 0, "failures": failures, "execution": "e",
                        },
                    },
                    "State": {"RetryCount": failures},
                    "Task": {"Token": "token"},
                },
            },
            "failure": {"Error": error, "Cause": cause.get("Cause", "")},
            "cache_function": {"requests": failures, "outcome": "promoted"} if has_all else {},
        }  # fmt: skip


VARIABLES = list(_variables())


@pytest.fixture(scope="module")
def reference() -> list[dict[str, Any]]:
    """Return the values by the reference engine, of each expression with each set of variables in turn."""
    sent = {
        "expressions": [each.removeprefix("{%").removesuffix("%}").strip() for each in EXPRESSIONS],
        "variables": VARIABLES,
        "millis": _NOW_US // 1000,
    }
    command = ["node", str(NODE / "evaluate.mjs")]
    run = subprocess.run(command, input=json.dumps(sent), capture_output=True, text=True, check=True, timeout=LIMIT_S)
    found: list[dict[str, Any]] = json.loads(run.stdout)
    return found


def _value(expression: str, variables: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": evaluate(expression, variables, now_us=_NOW_US)}
    except StateError:
        return {}


def _text(value: dict[str, Any]) -> str:
    """Return a value as JSON, where `true` is not 1, as it is in Python."""
    return json.dumps(value, sort_keys=True)


def test_every_expression_has_the_value_of_the_reference_engine(reference: list[dict[str, Any]]) -> None:
    pairs = list(itertools.product(EXPRESSIONS, VARIABLES))

    differences = [
        (expression, variables, found, expected)
        for (expression, variables), expected in zip(pairs, reference, strict=True)
        if _text(found := _value(expression, variables)) != _text(expected)
    ]

    assert differences[:3] == []


def test_inputs_reach_a_value_of_every_expression(reference: list[dict[str, Any]]) -> None:
    many = len(VARIABLES)

    without = [text for i, text in enumerate(EXPRESSIONS) if not any(reference[i * many : (i + 1) * many])]

    assert without == []
