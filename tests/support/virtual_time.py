"""Virtual time, which passes only when nothing is left to do: the earliest sleeper wakes once all others are at rest.

A participant is a thread. It counts as active until it sleeps on the clock, waits for another participant, or ends. An
event loop is one participant, at rest while it waits for work. A call to a real server counts as activity, so time
stands still during the call. If all participants wait and none of them for a point in time, the test fails at once
instead of hanging.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import math
import selectors
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_START_US = 1_763_632_800_000_000  # 2025-11-20T10:00:00Z
_US_PER_S = 1_000_000


class NothingHappensError(AssertionError):
    """Deadlock: all participants wait, and none for a point in time."""


class Rest:
    """Rest of one participant, from `VirtualClock.rest` to `VirtualClock.wake`."""

    __slots__ = ("_over", "error", "has_begun", "is_over", "must_end")

    def __init__(self, *, must_end: bool = False) -> None:
        self._over = threading.Lock()  # held until the end; takes a fifth of the time of an Event
        self._over.acquire()
        self.must_end = must_end
        self.has_begun = self.is_over = False
        self.error: Exception | None = None

    def end(self) -> None:
        """Resume the participant. Called once."""
        self.is_over = True
        self._over.release()

    def wait(self) -> None:
        """Block until the end. Called once."""
        self._over.acquire()
        if self.error is not None:
            raise self.error


@dataclass(slots=True, eq=False)
class _Onlooker:
    """Participant at rest until its first polling step after other participants have been active."""

    rest: Rest
    began_us: int
    step_us: int
    until_us: int
    has_missed: bool  # others have been active since it began

    def wakes_us(self, now_us: int) -> int:
        """Return the wake-up time if nothing more happens [us]."""
        if not self.has_missed:
            return self.until_us
        steps = max(1, math.ceil((now_us - self.began_us) / self.step_us))
        return self.began_us + steps * self.step_us


class _Thread:
    """Reusable worker thread, as starting a thread for each piece of work takes longer than most of the work."""

    def __init__(self) -> None:
        self._work: tuple[contextvars.Context, Callable[[], None]] | None = None
        self._has_work = threading.Lock()
        self._has_work.acquire()
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, context: contextvars.Context, work: Callable[[], None]) -> None:
        self._work = context, work
        self._has_work.release()

    def _run(self) -> None:
        while True:
            self._has_work.acquire()
            assert self._work is not None
            (context, work), self._work = self._work, None
            context.run(work)
            del context, work
            _IDLE.append(self)


_IDLE: list[_Thread] = []


def _begin(context: contextvars.Context, work: Callable[[], None]) -> None:
    """Start work in an idle or a new thread. The work must not raise."""
    try:
        thread = _IDLE.pop()
    except IndexError:
        thread = _Thread()
    thread.begin(context, work)


class VirtualClock:
    """Clock of a world. The thread that creates it is the first participant."""

    def __init__(self, start_us: int = _START_US) -> None:
        self._start_us = self._now_us = start_us
        self._active = 1
        self._sleepers: list[tuple[int, int, Rest]] = []
        self._onlookers: list[_Onlooker] = []
        self._waiting: set[Rest] = set()  # at rest without a wake-up time
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._started: set[Future[Any]] = set()

    def now_us(self) -> int:
        """Return the wall time [us]."""
        return self._now_us

    def monotonic_s(self) -> float:
        """Return the time since the clock's creation [s]."""
        return (self._now_us - self._start_us) / _US_PER_S

    def sleep(self, seconds: float) -> None:
        """Rest for a duration [s]."""
        self.sleep_until(self._now_us + math.ceil(seconds * _US_PER_S))

    def sleep_until(self, at_us: int) -> None:
        """Rest until a point in time. Return at once if it has passed."""
        if at_us > self._now_us:
            rest = Rest()
            self.rest(rest, at_us)
            rest.wait()

    def is_alone(self) -> bool:
        """Return whether all participants but the caller are at rest."""
        with self._lock:
            return self._active == 1

    def look_on(self, every_s: float, until_us: int, *, has_missed: bool = False) -> None:
        """Rest for whole steps until another participant has been active, or until `until_us` if none has been.

        The caller resumes at the step at which polling every step would have noticed a change. `has_missed` says that
        others may have changed something since the caller's last poll.
        """
        rest = Rest()
        with self._lock:
            has_missed = has_missed or self._active > 1
            rest.has_begun = True
            step_us = math.ceil(every_s * _US_PER_S)
            self._onlookers.append(_Onlooker(rest, self._now_us, step_us, until_us, has_missed))
            self._leave()
        rest.wait()

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop on this clock."""
        return VirtualLoop(self)

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        """Rest until another participant completes a future. Return its result or raise its exception.

        Raises:
            NothingHappensError: No participant is left to complete it.
            TimeoutError: It was not completed in time.
        """
        self.wait([future], timeout_s)
        return future.result(0)

    def wait(self, works: Sequence[Future[Any]], within_s: float | None = None) -> bool:
        """Rest until other participants have completed all futures, at most `within_s`. Return whether they have.

        Raises:
            NothingHappensError: No participant is left to complete them.
        """
        until_us = None if within_s is None else self._now_us + math.ceil(within_s * _US_PER_S)
        for work in works:
            self._rest_until_done(work, until_us)
        return all(work.done() for work in works)

    def _rest_until_done(self, future: Future[Any], until_us: int | None) -> None:
        rest = Rest(must_end=True)
        future.add_done_callback(lambda _: self.wake(rest))
        self.rest(rest, until_us)
        rest.wait()

    def start(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function as a participant in its own thread, with an empty context as in a new thread."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # a participant cannot be cancelled
        with self._lock:
            self._active += 1
            self._started.add(future)

        def run() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
            finally:
                with self._lock:
                    self._started.discard(future)
                    self._leave()

        _begin(contextvars.Context(), run)
        return future

    def wait_for_all(self, but: Future[Any]) -> None:
        """Rest until every participant started here but one has ended, regardless of results and exceptions.

        An event loop may give up waiting for a thread without ending it.
        """
        while left := [future for future in list(self._started) if future is not but and not future.done()]:
            for future in left:
                with contextlib.suppress(Exception):
                    self.wait_for(future)

    def rest(self, rest: Rest, until_us: int | None = None) -> None:
        """Count the calling participant as at rest until it is woken, or until `until_us` if not None."""
        with self._lock:
            if rest.is_over:  # woken before it could begin
                return
            rest.has_begun = True
            if until_us is None:
                self._waiting.add(rest)
            else:
                heapq.heappush(self._sleepers, (until_us, next(self._numbers), rest))
            self._leave()

    def wake(self, rest: Rest) -> None:
        """End a rest, or prevent one that has not begun. Idempotent."""
        with self._lock:
            if not rest.is_over:
                self._waiting.discard(rest)
                self._active += rest.has_begun
                rest.end()

    def _leave(self) -> None:
        self._active -= 1
        while self._active == 0 and (first := self._first_to_wake()) is not None:
            at_us, rest = first
            self._now_us = max(self._now_us, at_us)
            self.wake(rest)
        if self._active == 0:
            for rest in [rest for rest in self._waiting if rest.must_end]:
                rest.error = NothingHappensError("all participants wait, and none for a point in time")
                self.wake(rest)

    def _first_to_wake(self) -> tuple[int, Rest] | None:
        """Pop the first participant to wake, sleepers before onlookers, with its time. None: nobody waits for time."""
        while self._sleepers and self._sleepers[0][2].is_over:
            heapq.heappop(self._sleepers)
        onlooker = min(self._onlookers, key=lambda each: each.wakes_us(self._now_us), default=None)
        if onlooker is not None:
            at_us, rest = onlooker.wakes_us(self._now_us), onlooker.rest
        if self._sleepers and (onlooker is None or self._sleepers[0][0] <= at_us):
            at_us, _, rest = heapq.heappop(self._sleepers)
        elif onlooker is not None:
            self._onlookers.remove(onlooker)
        else:
            return None
        for each in self._onlookers:
            each.has_missed = True
        return at_us, rest


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop on a virtual clock. Other threads reach it by `call_soon_threadsafe` only, never by sockets."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._rests = clock, _RestingSelector(clock)
        self._context = contextvars.copy_context()
        super().__init__(self._rests)
        self.set_default_executor(_Participants(clock))

    def time(self) -> float:
        """Return the clock's time [s]."""
        return self._clock.monotonic_s()

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        """Count the loop as active before the caller can rest. The callback runs in the loop creator's context."""
        handle = super().call_soon_threadsafe(*args, **{"context": self._context.copy(), **kwargs})
        self._rests.wake()
        return handle

    def _write_to_self(self) -> None:
        """Do nothing, as `call_soon_threadsafe` ends the loop's rest without a byte through the kernel."""

    def _make_self_pipe(self) -> None:
        """Do nothing, as no byte needs the self-pipe's sockets."""

    _close_self_pipe = _make_self_pipe

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing, as the executor keeps no threads."""


class _RestingSelector(selectors.SelectSelector):
    """Selector that rests on a clock instead of in the kernel, as no socket is registered."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock, self._rest = clock, Rest()

    def wake(self) -> None:
        self._clock.wake(self._rest)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            until_us = None if timeout is None else self._clock.now_us() + math.ceil(timeout * _US_PER_S)
            self._clock.rest(self._rest, until_us)
            self._rest.wait()
            self._rest = Rest()
        return []


class _Participants(ThreadPoolExecutor):
    """Default executor for asyncio that runs every call as a participant."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._clock.start(fn, *args, **kwargs)
