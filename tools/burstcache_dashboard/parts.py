"""What the page shows apart from the table: each part is read by itself, and says so when that fails."""

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
    """One thing that is read apart from others. While that fails, what was known before stays."""

    name: str
    value: _T
    places: tuple[str, ...]  # of the page, which lack it when it cannot be read
    trouble: Mapping[str, Any] | None = None  # as the page shows it; None: it was read
    _asked: Future[_T] | None = None  # what takes longer than somebody waited for it

    def read(self, ask: Callable[[], _T]) -> _T:
        """Return what `ask` returns or, if it fails, what is known."""
        try:
            self.value = ask()
        except Exception as error:  # whatever a service answers, the other parts are shown
            since_ms = self.trouble["sinceMs"] if self.trouble else time.time_ns() // 1_000_000
            self.trouble = {"name": self.name, "sinceMs": since_ms, "what": said(error)}
        else:
            self.trouble = None
        return self.value

    def read_within(self, patience_s: float, ask: Callable[[], _T]) -> _T:
        """Return what `ask` returns or, if it fails or takes longer, what is known; the next read has what is late."""
        return self.read(lambda: self._awaited(patience_s, ask))

    def _awaited(self, patience_s: float, ask: Callable[[], _T]) -> _T:
        asked = self._asked = self._asked or started(ask)
        try:
            return asked.result(patience_s)
        except TimeoutError:
            if asked.done():  # it has come just now, or this is its own error
                return asked.result()
            raise ServiceTransientError(f"no answer within {patience_s:g} s") from None
        finally:
            if asked.done():
                self._asked = None


def said(error: Exception) -> str:
    """Return what the page says of a failure."""
    return str(error) if isinstance(error, BurstcacheError) else f"{type(error).__name__}: {error}"
