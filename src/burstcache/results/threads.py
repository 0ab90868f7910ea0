"""Threads of this process: the child of a fork has none of its parent's and makes its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


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


def in_thread(work: Callable[[], None]) -> None:
    """Do work while the caller goes on."""
    threading.Thread(target=work, name="burstcache-results", daemon=True).start()
