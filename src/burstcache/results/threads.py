"""Threads, clients and locks of this process: the child of a fork has none of its parent's, and makes its own.

A lock that another thread held at the fork would never be released in the child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class OfProcess(Generic[T]):
    """What every process makes for itself, at its first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}

    @property
    def made(self) -> T | None:
        """This process's own; None: it has not made any yet."""
        return self._made.get(os.getpid())

    def get(self) -> T:
        """Return this process's own."""
        made = self.made
        if made is None:
            made = self._make()
            self._made = {os.getpid(): made}
        return made


class Threads:
    """A pool that is made at its first use."""

    def __init__(self, count: int) -> None:
        self._pool = OfProcess(partial(ThreadPoolExecutor, count, thread_name_prefix="burstcache-results"))

    def pool(self) -> ThreadPoolExecutor:
        """Return this process's pool."""
        return self._pool.get()


class Forkable(Protocol):
    """What has a lock."""

    def after_fork(self) -> None:
        """Make a new lock, in a process that has one thread."""
        ...


_FORKABLE: WeakSet[Forkable] = WeakSet()


def new_lock(owner: Forkable) -> threading.Lock:
    """Return a lock of an object, whose `after_fork` the child of a fork calls."""
    _FORKABLE.add(owner)
    return threading.Lock()


def after_fork() -> None:
    """Have every object make a new lock."""
    for owner in list(_FORKABLE):
        owner.after_fork()


os.register_at_fork(after_in_child=after_fork)


def in_thread(work: Callable[[], None]) -> None:
    """Do work while the caller goes on."""
    threading.Thread(target=work, name="burstcache-results", daemon=True).start()
