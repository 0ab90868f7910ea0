"""A deadline for a whole socket operation, spanning all of its reads and writes.

A socket's own timeout restarts with each read, so a server that trickles bytes could block a caller forever. This
deadline spans the reads. Transferred bytes extend the deadline by their transfer time at the bandwidth of the smallest
node. Therefore a large response over a slow link completes, while a trickle times out.
"""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from burstcache.adapters.clock import Clock

# Baseline of a t4g.nano without network credits, 32 Mb/s (EC2 User Guide, "Specifications for Amazon EC2 general
# purpose instances").
LEAST_BYTES_PER_S = 4_000_000


class Deadline(threading.local):
    """The deadline of this thread's current operation.

    Args:
        clock: Source of time.
    """

    _at_s = math.inf  # monotonic time
    _latest_s = math.inf

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @contextmanager
    def within(self, timeout_s: float, *, most_s: float = 0.0) -> Iterator[None]:
        """Set the deadline of the operation within a `with` block.

        Args:
            timeout_s: Timeout before any extension by transferred bytes [s].
            most_s: Upper limit including extensions [s]. If it is below `timeout_s`, there are no extensions.
        """
        now_s = self._clock.monotonic_s()
        self._at_s, self._latest_s = now_s + timeout_s, now_s + max(timeout_s, most_s)
        try:
            yield
        finally:
            self._at_s = self._latest_s = math.inf

    def remaining_s(self) -> float:
        """Return the time left [s], or infinity outside an operation. Raise TimeoutError past the deadline."""
        remaining_s = self._at_s - self._clock.monotonic_s()
        if remaining_s <= 0:
            raise TimeoutError("the operation's deadline has passed")
        return remaining_s

    def passed(self, size_bytes: int) -> None:
        """Extend the deadline by the transfer time of the bytes received or sent."""
        self._at_s = min(self._at_s + size_bytes / LEAST_BYTES_PER_S, self._latest_s)


class TimedSocket:
    """A socket that enforces the calling thread's deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._socket = sock
        self._deadline = deadline
        self._timeout_s: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, timeout_s: float | None) -> None:
        """Set the timeout used without a deadline. 0: non-blocking, even with a deadline."""
        self._timeout_s = timeout_s
        self._socket.settimeout(timeout_s)

    def recv(self, *arguments: Any) -> bytes:
        self._limit()
        data = self._socket.recv(*arguments)
        self._deadline.passed(len(data))
        return data

    def recv_into(self, *arguments: Any) -> int:
        self._limit()
        count = self._socket.recv_into(*arguments)
        self._deadline.passed(count)
        return count

    def sendall(self, data: Any, *flags: Any) -> None:
        rest = memoryview(data).cast("B")
        while rest:  # TLS's own sendall restarts its timeout with each record
            self._limit()
            count = self._socket.send(rest, *flags)
            self._deadline.passed(count)
            rest = rest[count:]

    def _limit(self) -> None:
        if self._timeout_s != 0:
            remaining_s = self._deadline.remaining_s()
            self._socket.settimeout(remaining_s if math.isfinite(remaining_s) else self._timeout_s)
