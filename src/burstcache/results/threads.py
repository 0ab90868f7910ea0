"""Threads and clients of this process: the child of a fork has none of its parent's, and makes its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

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


def in_thread(work: Callable[[], None]) -> None:
    """Do work while the caller goes on."""
    threading.Thread(target=work, name="burstcache-results", daemon=True).start()
