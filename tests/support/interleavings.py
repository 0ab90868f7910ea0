"""Interleavings: operations that run at once, in every order in which calls of a shared part can follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from support.virtual_time import Rest, VirtualClock

T = TypeVar("T")


class Interleaving:
    """One order of the calls of concurrent operations, chosen by the numbers of the operations that go on."""

    def __init__(self, clock: VirtualClock, choices: Sequence[int]) -> None:
        self._clock, self._choices = clock, choices
        self._turn: Rest | None = None  # the end of the running operation's turn
        self._running = 0
        self._waiting: dict[int, Rest] = {}  # operations before their next call
        self.options: list[int] = []  # number of operations among which each choice was made
        self.calls: list[str] = []  # for the message of a failed assertion

    def shared(self, part: T) -> T:
        """Wrap a part so that each call of its methods waits for its operation's turn."""
        return _Shared(part, self)  # type: ignore[return-value]

    def run(self, *operations: Callable[[], object]) -> list[Future[Any]]:
        """Run the operations to their end, one at a time from call to call. Return their results or errors."""
        futures = []
        for number, operation in enumerate(operations):
            futures.append(self._go_on(number, lambda operation=operation: self._clock.start(operation)))  # type: ignore[misc]
        while self._waiting:
            at_rest = sorted(self._waiting)
            chosen = self._choices[len(self.options)] if len(self.options) < len(self._choices) else 0
            self.options.append(len(at_rest))
            rest = self._waiting.pop(at_rest[chosen])
            self._go_on(at_rest[chosen], lambda rest=rest: self._clock.wake(rest), futures[at_rest[chosen]])  # type: ignore[misc]
        return futures

    def _go_on(self, number: int, begin: Callable[[], Any], future: Future[Any] | None = None) -> Any:
        """Let an operation run until its next call or its end."""
        self._running, self._turn = number, Rest(must_end=True)
        turn = self._turn
        begun = begin()
        (future or begun).add_done_callback(lambda _: self._clock.wake(turn))
        self._clock.rest(turn)
        turn.wait()
        return begun

    def wait_for_turn(self, call: str) -> None:
        """End the running operation's turn, and rest until its next one."""
        number, turn = self._running, self._turn
        assert turn is not None
        self._waiting[number] = rest = Rest(must_end=True)
        self._clock.wake(turn)
        self._clock.rest(rest)
        rest.wait()
        self.calls.append(f"{number}: {call}")


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


def every_interleaving(clock: VirtualClock) -> Iterator[Interleaving]:
    """Yield an interleaving for each order of calls, depth first. Run each one before the next."""
    choices: list[int] = []
    while True:
        interleaving = Interleaving(clock, choices)
        yield interleaving
        options = interleaving.options
        choices = [*choices, *[0] * (len(options) - len(choices))][: len(options)]
        while choices and choices[-1] + 1 == options[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1
