"""Locks that outlive a fork: one that another thread held at that moment would never be released in the child."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


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


class Lock:
    """A lock that is free in the child of a fork, also if another thread of the parent held it."""

    def __init__(self) -> None:
        """Have a free lock."""
        self._lock = new_lock(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        """Have a free lock, in a process that has one thread."""
        self._lock = new_lock(self)


def after_fork() -> None:
    """Have every object make a new lock."""
    for owner in list(_FORKABLE):
        owner.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=after_fork)
