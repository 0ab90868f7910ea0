"""Single flight: concurrent reads of the same thing share one read of its source, which prevents a cache stampede.

A read may be shared by every caller that came before it began, however fresh an answer they need. A caller that accepts
an answer of some age may also follow a read that is under way (`may_follow`). All others share the next read, which
begins when the one under way has ended, or takes longer than S3 usually does. So a hundred reads at once are two reads.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Generic, TypeVar

from burstcache.adapters.clock import Clock
from burstcache.forks import new_lock

T = TypeVar("T")
K = TypeVar("K")

# The next read begins this long after its first caller came, even if the one under way has not ended: all that a slow
# S3 adds to the wait of a caller who needs the newest version. A program, whose threads are many, waits as long as S3
# takes to send most small objects; behind a front door somebody waits.
NEXT_AFTER_S, PATIENT_NEXT_AFTER_S = 0.025, 0.1
LEFT_AFTER_S = 4.0  # until followers leave a read whose connection hangs, and begin another one together


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """What a read returned, or the exception that it raised."""

    value: T | None
    error: Exception | None = None

    def result(self) -> T:
        """Return the value, or raise a copy of the exception: each caller has a traceback of its own."""
        if self.error is not None:
            raise _copied(self.error) from self.error.__cause__
        return self.value  # type: ignore[return-value]


class AbandonedError(Exception):
    """The leader was interrupted: its followers begin anew."""


@dataclass(slots=True, eq=False)
class Flight(Generic[T, K]):
    """One read.

    Attributes:
        ticket: What was known before it began; None: it has not begun.
        outcome: None once it is done means that its leader was interrupted.
        is_followed: Whether another caller waits for the outcome.
        thread: The thread that reads. A read within this one, by a callback, must not wait for it.
    """

    ticket: K | None = None
    outcome: Future[_Outcome[T] | None] = field(default_factory=Future)
    is_followed: bool = False
    thread: int | None = None


def never(_: object) -> bool:
    """Follow no read that is under way."""
    return False


class SingleFlight(Generic[T, K]):
    """Reads under way, and the next ones, by key. Threads and tasks may share it; a forked child knows of none.

    Args:
        clock: Times the waits of threads.
        ticket: Returns what is known now, never None, for `may_follow`; called before each read begins.
        next_after_s: How long the next read of a key waits for the one under way at most [s].
    """

    def __init__(self, clock: Clock, ticket: Callable[[], K], *, next_after_s: float = NEXT_AFTER_S) -> None:
        self._clock = clock
        self._ticket = ticket
        self._next_after_s = next_after_s
        self._lock = new_lock(self)
        self._under_way: dict[Hashable, Flight[T, K]] = {}  # the newest of each key
        self._next: dict[Hashable, Flight[T, K]] = {}

    def run(
        self, key: Hashable, work: Callable[[], T], *, may_follow: Callable[[K], bool] = never
    ) -> tuple[T, K | None]:
        """Return the value of a shared read, and the read's ticket; None instead of a ticket if it is the caller's own.

        Args:
            key: What is read.
            work: Reads it.
            may_follow: Whether a read with this ticket, which is under way, is fresh enough for the caller.

        Raises:
            Exception: What the read raised, as a copy for each follower.
        """
        return self.fly(key, lambda _: work(), work, may_follow=may_follow)

    def fly(
        self,
        key: Hashable,
        lead: Callable[[Flight[T, K]], T],
        alone: Callable[[], T],
        *,
        may_follow: Callable[[K], bool] = never,
    ) -> tuple[T, K | None]:
        """Do what `run` does. The leader's call gets its read, which it may leave; `alone` reads for one caller."""
        for within_s in (LEFT_AFTER_S, None):
            flight, is_leader = self.join(key, may_follow)
            if is_leader:
                return self.lead(key, flight, partial(lead, flight)), None
            try:
                outcome = self._clock.wait_for(flight.outcome, within_s)
            except TimeoutError:
                may_follow = never
                continue
            if outcome is not None:
                return outcome.result(), flight.ticket
        return alone(), None

    async def run_in_thread(
        self,
        key: Hashable,
        work: Callable[[], T],
        submit: Callable[[Callable[[], object]], object],
        *,
        may_follow: Callable[[K], bool] = never,
    ) -> tuple[T, K | None]:
        """Do what `run` does for a task of an event loop; tasks that wait hold no thread.

        The read goes on if the task that began it is cancelled, since other tasks may wait for it.

        Args:
            key: What is read.
            work: Reads it, in a thread.
            submit: Starts a call in a thread.
            may_follow: As for `run`.
        """
        import asyncio  # no function of a stack has tasks that read

        while True:
            flight, is_leader = self.join(key, may_follow)
            if is_leader:
                try:
                    submit(partial(self._lead_quietly, key, flight, work))
                except BaseException:
                    self._land(key, flight, None)
                    raise
            waiting = asyncio.shield(asyncio.wrap_future(flight.outcome))
            if is_leader:
                outcome = await waiting
                if outcome is None:
                    raise AbandonedError
                return outcome.result(), None
            try:
                outcome = await asyncio.wait_for(waiting, LEFT_AFTER_S)
            except TimeoutError:
                may_follow = never
                continue
            if outcome is not None:
                return outcome.result(), flight.ticket

    def join(self, key: Hashable, may_follow: Callable[[K], bool] = never) -> tuple[Flight[T, K], bool]:
        """Return the read to share, and whether the caller is its leader, who must call `lead` at once."""
        with self._lock:
            flight = self._under_way.get(key)
            is_within = flight is not None and flight.thread == get_ident()
            if flight is None or flight.ticket is None or is_within or not may_follow(flight.ticket):
                flight = self._next.get(key)
            if flight is not None:
                flight.is_followed = True
                return flight, False
            mine = self._next[key] = Flight()
            return mine, True

    def lead(self, key: Hashable, flight: Flight[T, K], work: Callable[[], T]) -> T:
        """Read for all that came before the read begins, and return the value, or raise what the read raises."""
        outcome: _Outcome[T] | None = None
        try:
            self._begin(key, flight)
            value = work()
            outcome = _Outcome(value)
            return value
        except Exception as error:
            outcome = _Outcome(None, error)
            raise
        finally:
            self._land(key, flight, outcome)

    def leave(self, key: Hashable, flight: Flight[T, K]) -> bool:
        """Let nobody join a read for which nobody waits; return whether nobody does."""
        with self._lock:
            if not flight.is_followed:
                self._remove(key, flight)
            return not flight.is_followed

    def forget(self, key: Hashable) -> None:
        """Let nobody else follow what is under way of a key."""
        with self._lock:
            self._under_way.pop(key, None)

    def after_fork(self) -> None:
        """Know of no read of the parent's."""
        self._lock = new_lock(self)
        self._under_way, self._next = {}, {}

    def _lead_quietly(self, key: Hashable, flight: Flight[T, K], work: Callable[[], T]) -> None:
        """Lead for a task, which gets the outcome as its followers do."""
        try:
            self.lead(key, flight, work)
        except Exception:
            return

    def _begin(self, key: Hashable, flight: Flight[T, K]) -> None:
        with self._lock:
            before = self._under_way.get(key)
        flight.thread = get_ident()
        if before is not None and before.thread != flight.thread and self._next_after_s:
            with contextlib.suppress(TimeoutError):
                self._clock.wait_for(before.outcome, self._next_after_s)
        ticket = self._ticket()
        with self._lock:
            flight.ticket = ticket
            if self._next.get(key) is flight:
                self._under_way[key] = self._next.pop(key)

    def _land(self, key: Hashable, flight: Flight[T, K], outcome: _Outcome[T] | None) -> None:
        with self._lock:
            self._remove(key, flight)
        flight.outcome.set_result(outcome)

    def _remove(self, key: Hashable, flight: Flight[T, K]) -> None:
        for flights in (self._under_way, self._next):
            if flights.get(key) is flight:
                del flights[key]


def _copied(error: Exception) -> Exception:
    """Return an equal exception without the traceback of the thread that raised the first one."""
    try:
        other = copy.copy(error)
    except Exception:  # its constructor wants more than it kept
        return error
    return other if type(other) is type(error) else error
