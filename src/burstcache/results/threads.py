"""Threads and clients per process. A forked child creates its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """An object that each process creates for itself on first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._objects: dict[int, T] = {}

    @property
    def existing(self) -> T | None:
        """This process's object, or None before its first use."""
        return self._objects.get(os.getpid())

    def get(self) -> T:
        """Return this process's object."""
        made = self.existing
        if made is None:
            made = self._make()
            self._objects = {os.getpid(): made}
        return made


class Threads:
    """A thread pool per process, created on first use."""

    def __init__(self, count: int) -> None:
        self._pool = PerProcess(partial(ThreadPoolExecutor, count, thread_name_prefix="burstcache-results"))

    def pool(self) -> ThreadPoolExecutor:
        """Return this process's pool."""
        return self._pool.get()


def in_thread(work: Callable[[], None]) -> None:
    """Run work in a background thread."""
    threading.Thread(target=work, name="burstcache-results", daemon=True).start()
