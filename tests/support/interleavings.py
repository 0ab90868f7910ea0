"""Interleavings: operations that run at once, in every order in which calls of a shared part can follow each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from support.virtual_time import Rest, VirtualClock

T = TypeVar("T")


class Interleaving:
    """One order of the calls of concurrent operations, chosen by the numbers of the operations that go on."""

    def __init__(self, clock: VirtualClock, choices: Sequence[int], reads: Collection[str]) -> None:
        self._clock, self._choices, self._reads = clock, choices, reads
        self._turn = Rest()  # ends with the turn of the running operation
        self._running = 0
        self._waiting: dict[int, tuple[str, Rest]] = {}  # operations before their next call
        self.options: list[int] = []  # number of operations among which each choice was made
        self.calls: list[tuple[int, str]] = []  # of an operation, in their order

    def shared(self, part: T) -> T:
        """Wrap a part so that each call of its methods waits for its operation's turn."""
        return _Shared(part, self)  # type: ignore[return-value]

    def run(self, *operations: Callable[[], object]) -> list[Future[Any]]:
        """Run the operations to their end, one at a time from call to call. Return their results or errors."""
        futures = [self._begin(number, operation) for number, operation in enumerate(operations)]
        while self._waiting:
            free = [number for number in sorted(self._waiting) if not self._is_equivalent(number)]
            choice = self._choices[len(self.options)] if len(self.options) < len(self._choices) else 0
            self.options.append(len(free) or 1)
            number = free[choice] if free else min(self._waiting)
            call, rest = self._waiting.pop(number)
            self.calls.append((number, call))
            self._go_on(number, futures[number], lambda rest=rest: self._clock.wake(rest))  # type: ignore[misc]
        return futures

    def _is_equivalent(self, number: int) -> bool:
        """Return whether an operation's next call and the last call are reads whose other order was run before."""
        if not self.calls:
            return False
        last, last_call = self.calls[-1]
        return number < last and {last_call, self._waiting[number][0]} <= set(self._reads)

    def _begin(self, number: int, operation: Callable[[], object]) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(operation())
            except Exception as error:
                future.set_exception(error)

        self._go_on(number, future, lambda: self._clock.start(run))
        return future

    def _go_on(self, number: int, future: Future[Any], go_on: Callable[[], object]) -> None:
        """Let an operation run until its next call or its end."""
        self._running, self._turn = number, Rest(must_end=True)
        future.add_done_callback(lambda _, turn=self._turn: self._clock.wake(turn))  # type: ignore[misc]
        go_on()
        self._clock.rest(self._turn)
        self._turn.wait()

    def wait_for_turn(self, call: str) -> None:
        """End the running operation's turn, and rest until its next one."""
        rest = Rest(must_end=True)
        self._waiting[self._running] = call, rest
        self._clock.wake(self._turn)
        self._clock.rest(rest)
        rest.wait()


class _Shared:
    def __init__(self, part: object, interleaving: Interleaving) -> None:
        self._part, self._interleaving = part, interleaving

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._part, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            self._interleaving.wait_for_turn(name)
            return attribute(*args, **kwargs)

        return call


def every_interleaving(clock: VirtualClock, *, reads: Collection[str]) -> Iterator[Interleaving]:
    """Yield an interleaving for each order of calls, depth first. Run each one before the next.

    Args:
        clock: The operations' clock.
        reads: Methods that change nothing. Orders that only swap two of their calls count as one.
    """
    choices: list[int] = []
    while True:
        interleaving = Interleaving(clock, choices, reads)
        yield interleaving
        options = interleaving.options
        choices = [*choices, *[0] * (len(options) - len(choices))][: len(options)]
        while choices and choices[-1] + 1 == options[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1
