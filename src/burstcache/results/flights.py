"""One computation per key at a time within a process: a later caller follows the first one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from burstcache.results.threads import new_lock

T = TypeVar("T")


class Computation:
    """A call of the function that is under way."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_forgotten = False  # what it returns is older than what its callers want to find


class Flights(Generic[T]):
    """Computations under way, by key. The child of a fork knows nothing of its parent's."""

    def __init__(self) -> None:
        self._lock = new_lock(self)
        self._flights: dict[str, Future[T | None]] = {}
        self._forgotten: set[Future[T | None]] = set()  # under way, and nobody's to join any more
        self._computations: set[Computation] = set()  # those of flights, and of callers that wait for none

    def join(self, key: str) -> tuple[Future[T | None], bool]:
        """Return the computation of a key, and whether it is the caller's to do."""
        with self._lock:
            mine: Future[T | None] = Future()
            flight = self._flights.setdefault(key, mine)
            return flight, flight is mine

    def has(self, key: str) -> bool:
        """Whether a computation of a key is under way."""
        return key in self._flights

    def land(self, key: str, flight: Future[T | None], outcome: T | None) -> None:
        """End the caller's computation; None: it was interrupted, and a follower has to begin anew."""
        with self._lock:
            if self._flights.get(key) is flight:
                del self._flights[key]
            elif flight in self._forgotten:
                self._forgotten.remove(flight)
            else:  # this process was forked off in the middle of it
                return
        flight.set_result(outcome)

    @contextmanager
    def computing(self, key: str) -> Iterator[Computation]:
        """Count a computation as under way."""
        computation = Computation(key)
        with self._lock:
            self._computations.add(computation)
        try:
            yield computation
        finally:
            with self._lock:
                self._computations.discard(computation)

    def forget(self, key: str) -> None:
        """Mark what is under way as forgotten: nobody joins it any more, and a later caller begins anew."""
        with self._lock:
            if (flight := self._flights.pop(key, None)) is not None:
                self._forgotten.add(flight)
            for computation in self._computations:
                computation.is_forgotten |= computation.key == key

    def after_fork(self) -> None:
        """Know nothing of the parent's computations."""
        self._lock = new_lock(self)
        self._flights, self._forgotten, self._computations = {}, set(), set()
