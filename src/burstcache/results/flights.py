"""One computation per key at a time within a process: a later caller follows the first one."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

from burstcache.results.threads import new_lock

T = TypeVar("T")


class Flights(Generic[T]):
    """Computations under way, by key. The child of a fork knows nothing of its parent's."""

    def __init__(self) -> None:
        self._lock = new_lock(self)
        self._flights: dict[str, Future[T | None]] = {}

    def join(self, key: str) -> tuple[Future[T | None], bool]:
        """Return the computation of a key, and whether it is the caller's to do."""
        with self._lock:
            mine: Future[T | None] = Future()
            flight = self._flights.setdefault(key, mine)
            return flight, flight is mine

    def has(self, key: str) -> bool:
        """Whether a computation of a key is under way."""
        return key in self._flights

    def land(self, key: str, outcome: T | None) -> None:
        """End the caller's computation; None: it was interrupted, and a follower has to begin anew."""
        with self._lock:
            flight = self._flights.pop(key, None)
        if flight is not None:  # else this process was forked off in the middle of it
            flight.set_result(outcome)

    def after_fork(self) -> None:
        """Know nothing of the parent's computations."""
        self._lock = new_lock(self)
        self._flights = {}
