"""Threads and locks of this process: the child of a fork has none of its parent's threads, and makes its own.

A lock that another thread held at the fork would never be released in the child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol
from weakref import WeakSet


class Threads:
    """A pool that is made at its first use."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pools: dict[int, ThreadPoolExecutor] = {}  # by process

    def pool(self) -> ThreadPoolExecutor:
        """Return this process's pool."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = ThreadPoolExecutor(self._count, thread_name_prefix="burstcache-results")
            self._pools = {os.getpid(): pool}
        return pool


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
