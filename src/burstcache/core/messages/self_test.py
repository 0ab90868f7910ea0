"""The messages of a self-test: the event that requests it, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from burstcache.core.keys import key_hash

SELF_TEST: Literal["self_test"] = "self_test"


class SelfTest(TypedDict):
    """The event that makes a function check every part that it depends on."""

    op: Literal["self_test"]
    run: str  # unique ID of this self-test, by which functions find each other over the relay


class CheckResult(TypedDict):
    """The result of a check of one part at an endpoint."""

    part: str
    endpoint: str  # host and port
    duration_ms: int
    problem: str  # the failure and its remedy; empty after a success


class SelfTestResult(TypedDict):
    """The results of all of a function's checks."""

    tried: list[CheckResult]


class FunctionCheckResult(CheckResult):
    """The result of a check, with the function that made it."""

    function: str


class StackTestResult(TypedDict):
    """The results of all functions of a stack."""

    tried: list[FunctionCheckResult]


def is_self_test(event: Mapping[str, Any]) -> bool:
    """Return whether an event requests a self-test. No front door, bus or schedule sends exactly these fields."""
    return event.get("op") == SELF_TEST and event.keys() == SelfTest.__annotations__.keys()


def hash_of_run(run: str) -> str:
    """Return the hash of a key that has no object, for a self-test's messages over the relay."""
    return key_hash(f"{SELF_TEST}/{run}")


def problems(tested: StackTestResult) -> list[str]:
    """Return a sentence for each problem, with all functions that reported it."""
    functions_by_problem: dict[tuple[str, str, str], list[str]] = {}
    for result in tested["tried"]:
        if result["problem"]:
            problem = (result["part"], result["endpoint"], result["problem"])
            functions_by_problem.setdefault(problem, []).append(result["function"])
    return [
        f"{', '.join(functions)}: {part} at {endpoint}: {problem}"
        for (part, endpoint, problem), functions in functions_by_problem.items()
    ]
