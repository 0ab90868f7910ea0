"""Locks that survive forks. A plain lock held by another thread during a fork stays locked in the child forever."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """The owner of a lock that is replaced after a fork."""

    def after_fork(self) -> None:
        """Replace the lock. Called in the child process while it has only one thread."""
        ...


_FORKABLE: WeakSet[Forkable] = WeakSet()


def new_lock(owner: Forkable) -> threading.Lock:
    """Return a lock for `owner`, and register its `after_fork` for forks of this process."""
    _FORKABLE.add(owner)
    return threading.Lock()


class Lock:
    """A lock that is free in the child of a fork, even if another thread of the parent held it."""

    def __init__(self) -> None:
        """Start unlocked."""
        self._lock = new_lock(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        """Replace the lock with an unlocked one."""
        self._lock = new_lock(self)


def after_fork() -> None:
    """Replace the locks of all registered owners."""
    for owner in list(_FORKABLE):
        owner.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=after_fork)
