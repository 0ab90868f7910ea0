"""Entry writer: stores small objects and the heads of large ones on disk, behind the reads that have loaded them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, wait

from burstcache.adapters.clock import Clock
from burstcache.forks import Lock

_MOST_WAIT_S = 2.0
_MOST_WAITING_BYTES = 64 << 20


class EntryWriter:
    """Writes entries one after another, so that of two versions the later one stays. Threads may share it.

    A disk that is too slow misses entries: waiting ones take at most 64 MiB, or are a single one, and none is written
    later than 2 s after its read.
    """

    def __init__(self, thread: Executor, clock: Clock) -> None:
        """Create a writer.

        Args:
            thread: Runs one write at a time, in order.
            clock: Times how long writes wait.
        """
        self._thread = thread
        self._clock = clock
        self._lock = Lock()
        self._waiting_bytes = 0
        self._waiting: set[Future[None]] = set()

    def submit(self, size_bytes: int, write: Callable[[], object]) -> None:
        """Write an entry of this length soon, or not at all. Never blocks."""
        with self._lock:
            if self._waiting_bytes and self._waiting_bytes + size_bytes > _MOST_WAITING_BYTES:
                return
            self._waiting_bytes += size_bytes
        try:
            future = self._thread.submit(self._write, size_bytes, write, self._clock.monotonic_s())
        except RuntimeError:  # the client was closed, or the interpreter is exiting
            self._note_done(size_bytes)
            return
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)

    def close(self, within_s: float) -> None:
        """Wait for the entries so far, for a limited time, and end the thread after them."""
        wait(tuple(self._waiting), within_s)
        self._thread.shutdown(wait=False)

    def _write(self, size_bytes: int, write: Callable[[], object], since_s: float) -> None:
        try:
            if self._clock.monotonic_s() - since_s <= _MOST_WAIT_S:
                write()
        finally:
            self._note_done(size_bytes)

    def _note_done(self, size_bytes: int) -> None:
        with self._lock:
            self._waiting_bytes -= size_bytes
