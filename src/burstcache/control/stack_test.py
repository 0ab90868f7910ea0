"""The self-test of a stack: every function tries what it works with, and what fails becomes a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.self_test import SELF_TEST, SelfTest, SelfTested, StackTested, TriedBy, problems

# The cache function, the proxy and Redis control talk to each other; more at a time would take what concurrency a new
# account has.
_AT_ONCE = 3
_TRY_AGAIN_S = 10
_MOST_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class StackTest:
    """Asks the functions of a stack for their self-tests."""

    functions: Sequence[str]  # names; those that talk to each other first
    invoke: Callable[[str, Mapping[str, object]], Any]  # raises a BurstcacheError if the function fails
    clock: Clock
    new_run: Callable[[], str]

    def test(self) -> StackTested:
        """Have every function tested once."""
        event = SelfTest(op=SELF_TEST, run=self.new_run())
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="stack-test") as pool:
            answers = pool.map(lambda function: self._ask(function, event), self.functions)
            return StackTested(tried=[tried for answer in answers for tried in answer])

    def until_it_passes(self, *, within_s: float) -> StackTested:
        """Test until all works, since what has just been made may need a while; return the last result.

        Args:
            within_s: No test begins later than this [s].
        """
        give_up_s = self.clock.monotonic_s() + within_s
        while problems(tested := self.test()) and self.clock.monotonic_s() + _TRY_AGAIN_S < give_up_s:
            self.clock.sleep(_TRY_AGAIN_S)
        return tested

    def _ask(self, function: str, event: SelfTest) -> list[TriedBy]:
        began_s = self.clock.monotonic_s()
        try:
            answer: SelfTested = self.invoke(function, event)
            return [TriedBy(function=function, **tried) for tried in answer["tried"]]
        except BurstcacheError as error:
            duration_ms = round((self.clock.monotonic_s() - began_s) * 1000)
            problem = f"{error}; its log says more"
            return [TriedBy(function=function, part="itself", endpoint="-", duration_ms=duration_ms, problem=problem)]


def reason(found: Sequence[str]) -> str:
    """Return what a deployment fails with: the first sentences, and how many there are in all."""
    rest = len(found) - _MOST_SENTENCES
    more = [f"and {rest} more, which are in the log of the self-test"] if rest > 0 else []
    return ". ".join([*found[:_MOST_SENTENCES], *more])
