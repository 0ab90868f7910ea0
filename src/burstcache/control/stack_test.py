"""The stack test: every function of a stack runs its self-test, and each failure becomes a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.self_test import (
    SELF_TEST,
    FunctionCheckResult,
    SelfTest,
    SelfTestResult,
    StackTestResult,
    problems,
)

# The cache function, the proxy and Redis control test each other at the same time. More functions would use up the
# concurrency of a new account.
_AT_ONCE = 3
_TRY_AGAIN_S = 10
_MOST_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class StackTest:
    """A test that runs the self-tests of a stack's functions."""

    functions: Sequence[str]  # names; functions that test each other come first
    invoke: Callable[[str, Mapping[str, object]], Any]  # raises a BurstcacheError if the function fails
    clock: Clock
    new_run: Callable[[], str]

    def test(self) -> StackTestResult:
        """Test every function once."""
        event = SelfTest(op=SELF_TEST, run=self.new_run())
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="stack-test") as pool:
            answers = pool.map(lambda function: self._test_function(function, event), self.functions)
            return StackTestResult(tried=[tried for answer in answers for tried in answer])

    def until_it_passes(self, *, within_s: float) -> StackTestResult:
        """Repeat the test until all checks pass, since new resources may need a while. Return the last result.

        Args:
            within_s: No test begins later than this [s].
        """
        give_up_s = self.clock.monotonic_s() + within_s
        while problems(tested := self.test()) and self.clock.monotonic_s() + _TRY_AGAIN_S < give_up_s:
            self.clock.sleep(_TRY_AGAIN_S)
        return tested

    def _test_function(self, function: str, event: SelfTest) -> list[FunctionCheckResult]:
        began_s = self.clock.monotonic_s()
        try:
            answer: SelfTestResult = self.invoke(function, event)
            return [FunctionCheckResult(function=function, **tried) for tried in answer["tried"]]
        except BurstcacheError as error:
            duration_ms = round((self.clock.monotonic_s() - began_s) * 1000)
            problem = f"{error}; its log says more"
            return [
                FunctionCheckResult(
                    function=function, part="itself", endpoint="-", duration_ms=duration_ms, problem=problem
                )
            ]


def reason(sentences: Sequence[str]) -> str:
    """Return the message of a failed deployment: the first sentences, and the number of the others."""
    rest = len(sentences) - _MOST_SENTENCES
    more = [f"and {rest} more, which are in the log of the self-test"] if rest > 0 else []
    return ". ".join([*sentences[:_MOST_SENTENCES], *more])
