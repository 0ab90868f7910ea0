"""Single flight: concurrent reads of one key share one read of the source, which prevents cache stampedes.

A caller that arrived before a read began may share that read, regardless of the freshness it requires. A caller that
accepts older data may also join a read already in flight (`may_follow`). All other callers share the next read, which
begins when the read in flight has ended, or has taken longer than S3 usually does. Therefore a hundred concurrent reads
cost two reads of the source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Generic, TypeVar

from burstcache.adapters.clock import Clock
from burstcache.adapters.error_copies import copy_error
from burstcache.forks import new_lock

T = TypeVar("T")
K = TypeVar("K")

# How long the next read waits for the read in flight. This is the maximum latency that sharing adds for a caller that
# needs the newest version. A program, with its many threads, waits for as long as S3 takes for most small objects.
NEXT_AFTER_S, PATIENT_NEXT_AFTER_S = 0.025, 0.1
LEFT_AFTER_S = 4.0  # after this time, followers abandon a hung read and share another read


@dataclass(frozen=True, slots=True)
class FlightOutcome(Generic[T]):
    """The value returned or the exception raised by a read."""

    value: T | None
    error: Exception | None = None

    def result(self) -> T:
        """Return the value, or raise a copy of the exception, so that each caller has its own traceback."""
        if self.error is not None:
            raise copy_error(self.error, None) or self.error
        return self.value  # type: ignore[return-value]


class AbandonedError(Exception):
    """The leader was interrupted, so its followers retry."""


@dataclass(slots=True, eq=False)
class Flight(Generic[T, K]):
    """One shared read.

    Attributes:
        forks: Number of forks of the process before the read. A child forked later does not complete the read.
        ticket: The ticket issued just before the read begins. None until then.
        outcome: The outcome, or None if the leader was interrupted.
        is_followed: Whether another caller waits for the outcome.
        is_joined: Whether other callers may wait for the outcome.
        thread: The reading thread. A nested read from a callback must not wait for it.
    """

    forks: int
    ticket: K | None = None
    outcome: Future[FlightOutcome[T] | None] = field(default_factory=Future)
    is_followed: bool = False
    is_joined: bool = False
    thread: int | None = None


def never(_: object) -> bool:
    """Join no read in flight."""
    return False


def always(_: object) -> bool:
    """Join any read in flight."""
    return True


class SingleFlight(Generic[T, K]):
    """Reads in flight and pending reads, by key. Safe for threads and tasks. A forked child starts with none.

    Args:
        clock: Measures the waits of followers.
        ticket: Returns a ticket for `may_follow`, never None. Called before each read begins.
        next_after_s: The longest wait of a key's next read for the read in flight [s].
    """

    def __init__(self, clock: Clock, ticket: Callable[[], K], *, next_after_s: float = NEXT_AFTER_S) -> None:
        self._clock = clock
        self._ticket = ticket
        self._next_after_s = next_after_s
        self._lock = new_lock(self)
        self._forks = 0
        self._under_way: dict[Hashable, Flight[T, K]] = {}  # the latest read per key
        self._next: dict[Hashable, Flight[T, K]] = {}

    def run(
        self, key: Hashable, work: Callable[[], T], *, may_follow: Callable[[K], bool] = never
    ) -> tuple[T, K | None]:
        """Return the value and the ticket of a shared read. The ticket is None if the caller led the read.

        Args:
            key: The key of the read.
            work: Reads the source.
            may_follow: Returns True if a read in flight with this ticket is fresh enough for the caller.

        Raises:
            Exception: The read's exception, copied for each follower.
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
        """Run a shared read like `run`. `lead` receives its flight and may `leave` it. `alone` is not shared."""
        for within_s in (LEFT_AFTER_S, None):
            mine = self.new_flight()
            try:
                flight, is_leader = self.join(key, may_follow, mine)
                if is_leader:
                    return self.lead(key, flight, partial(lead, flight)), None
            finally:
                self.abandon(key, mine)
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
        """Run a shared read like `run`, for an asyncio task. Waiting tasks occupy no thread.

        The read continues if the leading task is cancelled, since other tasks may wait for it.

        Args:
            key: The key of the read.
            work: Reads the source, in a thread.
            submit: Starts a call in a thread.
            may_follow: As for `run`.
        """
        import asyncio  # imported lazily, since no Lambda function reads from a task

        while True:
            mine = self.new_flight()
            try:
                flight, is_leader = self.join(key, may_follow, mine)
                if is_leader:
                    submit(partial(self._lead_quietly, key, flight, work))
            except BaseException:
                self.abandon(key, mine)
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

    def new_flight(self) -> Flight[T, K]:
        """Return a flight for `join`, which the caller passes to `abandon` in the end."""
        return Flight(self._forks)

    def join(
        self, key: Hashable, may_follow: Callable[[K], bool] = never, mine: Flight[T, K] | None = None
    ) -> tuple[Flight[T, K], bool]:
        """Return the read to share, and True if the caller must lead it now: by `lead`, or by `begin` and `land`.

        Args:
            key: The key of the read.
            may_follow: As for `run`.
            mine: The flight that the caller leads if there is none to share. An interrupt (Ctrl-C) may come before the
                caller has the result. Then it can `abandon` this flight, and no other caller waits for it. None: a new
                flight.
        """
        with self._lock:
            return self._join(key, may_follow, mine or self.new_flight())

    def join_all(
        self, keys: Iterable[Hashable], may_follow: Callable[[K], bool] = never
    ) -> list[tuple[Flight[T, K], bool]]:
        """Join the reads of several keys in one step, so that one of two callers with the same keys leads all reads."""
        with self._lock:
            return [self._join(key, may_follow, self.new_flight()) for key in keys]

    def _join(self, key: Hashable, may_follow: Callable[[K], bool], mine: Flight[T, K]) -> tuple[Flight[T, K], bool]:
        flight = self._under_way.get(key)
        is_within = flight is not None and flight.thread == get_ident()
        if flight is None or flight.ticket is None or is_within or not may_follow(flight.ticket):
            flight = self._next.get(key)
        if flight is not None:
            flight.is_followed = True
            return flight, False
        mine.is_joined = True
        self._next[key] = mine
        return mine, True

    def lead(self, key: Hashable, flight: Flight[T, K], work: Callable[[], T]) -> T:
        """Read for all callers that join before the read begins. Return the read's value or propagate its exception."""
        outcome: FlightOutcome[T] | None = None
        try:
            flight.thread = get_ident()
            self.begin(key, flight)
            value = work()
            outcome = FlightOutcome(value)
            return value
        except Exception as error:
            outcome = FlightOutcome(None, error)
            raise
        finally:
            self.land(key, flight, outcome)

    def begin(self, key: Hashable, flight: Flight[T, K]) -> None:
        """Wait for an earlier read of the key, at most `next_after_s`, then mark the leader's read as in flight."""
        with self._lock:
            before = self._under_way.get(key)
        if before is not None and before.thread != flight.thread and self._next_after_s:
            with contextlib.suppress(TimeoutError):
                self._clock.wait_for(before.outcome, self._next_after_s)
        ticket = self._ticket()
        with self._lock:
            flight.ticket = ticket
            if self._next.get(key) is flight:
                self._under_way[key] = self._next.pop(key)

    def land(self, key: Hashable, flight: Flight[T, K], outcome: FlightOutcome[T] | None) -> None:
        """Complete the leader's read. An outcome of None means that the read was interrupted. Followers then retry."""
        with self._lock:
            self._remove(key, flight)
        if flight.forks == self._forks:
            with contextlib.suppress(InvalidStateError):  # abandoned in the meantime
                flight.outcome.set_result(outcome)

    def abandon(self, key: Hashable, mine: Flight[T, K]) -> None:
        """Complete the caller's flight if an interrupt has kept it from that. Else this has no effect."""
        if mine.is_joined and not mine.outcome.done():
            self.land(key, mine, None)

    def has(self, key: Hashable) -> bool:
        """Return True if a read of the key is in flight or pending."""
        return key in self._under_way or key in self._next

    def leave(self, key: Hashable, flight: Flight[T, K]) -> bool:
        """Withdraw a read that has no followers. Return False if the read has followers."""
        with self._lock:
            if not flight.is_followed:
                self._remove(key, flight)
            return not flight.is_followed

    def forget(self, key: Hashable) -> None:
        """Close the key's read in flight to new followers."""
        with self._lock:
            self._under_way.pop(key, None)

    def after_fork(self) -> None:
        """Replace the lock and discard the parent's reads."""
        self._lock = new_lock(self)
        self._forks += 1
        self._under_way, self._next = {}, {}

    def _lead_quietly(self, key: Hashable, flight: Flight[T, K], work: Callable[[], T]) -> None:
        """Lead a read for a task, which awaits the outcome like the followers."""
        try:
            self.lead(key, flight, work)
        except Exception:
            return

    def _remove(self, key: Hashable, flight: Flight[T, K]) -> None:
        for flights in (self._under_way, self._next):
            if flights.get(key) is flight:
                del flights[key]
