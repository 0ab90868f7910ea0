"""One computation per key at a time within a process: a later caller follows the first one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from burstcache.forks import new_lock

T = TypeVar("T")


class Work:
    """A call of the function, or a read of what is kept, that is under way."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_forgotten = False  # what it brings is older than what its callers want to find


class Flights(Generic[T]):
    """Computations under way, by key. The child of a fork knows nothing of its parent's."""

    def __init__(self) -> None:
        self._lock = new_lock(self)
        self._flights: dict[str, Future[T | None]] = {}
        self._forgotten: set[Future[T | None]] = set()  # under way, and nobody's to join any more
        self._works: set[Work] = set()  # those of flights, and of callers that wait for none

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
    def working(self, key: str) -> Iterator[Work]:
        """Count a call of the function, or a read, as under way."""
        work = Work(key)
        with self._lock:
            self._works.add(work)
        try:
            yield work
        finally:
            with self._lock:
                self._works.discard(work)

    def forget(self, key: str) -> None:
        """Mark what is under way as forgotten: nobody joins it any more, and a later caller begins anew."""
        with self._lock:
            if (flight := self._flights.pop(key, None)) is not None:
                self._forgotten.add(flight)
            for work in self._works:
                work.is_forgotten |= work.key == key

    def after_fork(self) -> None:
        """Know nothing of what the parent does."""
        self._lock = new_lock(self)
        self._flights, self._forgotten, self._works = {}, set(), set()
