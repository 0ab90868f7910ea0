"""The self-test of a stack: patient with what has just been made, and one sentence for what does not work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from burstcache.control.stack_test import StackTest, reason
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.self_test import CheckResult, problems
from support.clock import ManualClock

Answer = Callable[[int], str]  # how often it was asked before → the problem


def stack_test(**problem_of: Answer) -> StackTest:
    asked = dict.fromkeys(problem_of, 0)

    def invoke(function: str, event: Mapping[str, Any]) -> Any:
        problem = problem_of[function](asked[function])
        asked[function] += 1
        if problem == "crash":
            raise FunctionFailedError(f"{function} failed: InvalidSettingError: TABLE_NAME is empty")
        return {"tried": [CheckResult(part="table", endpoint="dynamodb:443", duration_ms=1, problem=problem)]}

    return StackTest(tuple(problem_of), invoke, ManualClock(), lambda: "run")


def works(_: int) -> str:
    return ""


def closed(_: int) -> str:
    return "nothing answers there"


def test_every_function_is_asked_and_named() -> None:
    tested = stack_test(cache=works, proxy=closed).test()

    assert [(tried["function"], tried["problem"]) for tried in tested["tried"]] == [
        ("cache", ""),
        ("proxy", "nothing answers there"),
    ]


def test_a_function_that_does_not_run_is_a_problem_of_its_own() -> None:
    (sentence,) = problems(stack_test(proxy=lambda _: "crash").test())

    assert sentence == "proxy: itself at -: proxy failed: InvalidSettingError: TABLE_NAME is empty; its log says more"


def test_what_has_just_been_made_may_need_a_while() -> None:
    test = stack_test(proxy=lambda asked: closed(asked) if asked < 3 else "")

    assert problems(test.until_it_passes(within_s=60)) == []
    assert test.clock.monotonic_s() == 30


def test_a_test_that_keeps_failing_ends_in_time() -> None:
    test = stack_test(proxy=closed)

    assert problems(test.until_it_passes(within_s=60)) == ["proxy: table at dynamodb:443: nothing answers there"]
    assert test.clock.monotonic_s() <= 60


def test_the_same_problem_of_several_functions_is_one_sentence() -> None:
    assert problems(stack_test(proxy=closed, cache=closed, janitor=works).test()) == [
        "proxy, cache: table at dynamodb:443: nothing answers there"
    ]


def test_a_deployment_fails_with_the_first_sentences_and_the_number_of_others() -> None:
    assert reason(["a", "b"]) == "a. b"
    assert reason(["a", "b", "c", "d", "e"]) == "a. b. c. and 2 more, which are in the log of the self-test"
