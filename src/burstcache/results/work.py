"""Work in progress: computations and reads. Results are not cached if their key is forgotten meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from burstcache.forks import new_lock


class Work:
    """A call of the cached function, or a read from a store."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_forgotten = False  # whether the key was forgotten since the work began


class WorkUnderWay:
    """This process's work in progress. Thread-safe."""

    def __init__(self) -> None:
        """Start without work."""
        self._lock = new_lock(self)
        self._works: Counter[Work] = Counter()  # number of open contexts per piece of work

    @contextmanager
    def begin(self, key: str) -> Iterator[Work]:
        """Track a piece of work until the context ends."""
        work = Work(key)
        with self._lock:
            self._works[work] = 1
        with self._until_end(work):
            yield work

    @contextmanager
    def resume(self, work: Work) -> Iterator[None]:
        """Track a piece of work in another thread, which may outlive the task that began it.

        Work of a cancelled task counts as forgotten, since its key may have been forgotten while it was not tracked.
        """
        with self._lock:
            work.is_forgotten |= work not in self._works
            self._works[work] += 1
        with self._until_end(work):
            yield

    def forget(self, key: str) -> None:
        """Mark a key's work as forgotten."""
        with self._lock:
            for work in self._works:
                work.is_forgotten |= work.key == key

    def after_fork(self) -> None:
        """Drop the parent's work."""
        self._lock, self._works = new_lock(self), Counter()

    @contextmanager
    def _until_end(self, work: Work) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._works[work] -= 1
                if self._works[work] <= 0:  # below 0 in the child of a fork
                    del self._works[work]
