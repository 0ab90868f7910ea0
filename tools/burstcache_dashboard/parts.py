"""The parts of the page other than the table. Each part is read independently and reports its own errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from burstcache.core.errors import BurstcacheError, ServiceTransientError
from burstcache_dashboard.threads import started

_T = TypeVar("_T")


@dataclass
class Part(Generic[_T]):
    """A value that is read independently of other values. A failed read leaves the previous value unchanged."""

    name: str
    value: _T
    places: tuple[str, ...]  # sections of the page that need the value
    trouble: Mapping[str, Any] | None = None  # error of the last read, for the page (None: the read succeeded)
    _pending: Future[_T] | None = None  # read in progress, even after the read's timeout

    def read(self, load: Callable[[], _T]) -> _T:
        """Return the result of `load`, or the previous value if it fails."""
        try:
            self.value = load()
        except Exception as error:  # an error in one service must not hide other parts
            since_ms = self.trouble["sinceMs"] if self.trouble else time.time_ns() // 1_000_000
            self.trouble = {"name": self.name, "sinceMs": since_ms, "what": error_text(error)}
        else:
            self.trouble = None
        return self.value

    def read_within(self, timeout_s: float, load: Callable[[], _T]) -> _T:
        """Return the result of `load`, or the previous value on error or timeout. The next call gets a late result."""
        return self.read(lambda: self._awaited(timeout_s, load))

    def _awaited(self, timeout_s: float, load: Callable[[], _T]) -> _T:
        pending = self._pending = self._pending or started(load)
        try:
            return pending.result(timeout_s)
        except TimeoutError:
            if pending.done():  # just finished, or `load` itself raised a TimeoutError
                return pending.result()
            raise ServiceTransientError(f"no answer within {timeout_s:g} s") from None
        finally:
            if pending.done():
                self._pending = None


def error_text(error: Exception) -> str:
    """Format an error for the page."""
    return str(error) if isinstance(error, BurstcacheError) else f"{type(error).__name__}: {error}"
