"""Stalls of a busy machine, which a test of time limits has to tell from faults."""

from __future__ import annotations

import threading
import time
from typing import Self

_PAUSE_S = 0.005


class Stalls:
    """Context manager that measures for how long this process was kept from running."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        before_s = time.monotonic()
        while not self._is_over.wait(_PAUSE_S):
            now_s = time.monotonic()
            self.longest_s = max(self.longest_s, now_s - before_s - _PAUSE_S)
            before_s = now_s
