"""A deadline for a whole operation over sockets, whatever number of reads and writes it consists of.

A socket's own time-out starts again with each read: a server that sends a byte at a time would be waited for without
end. So the deadline is counted down between reads. It moves only with the bytes that pass: by what they take at the
bandwidth of the smallest node, so that a large answer over a slow link is received and a trickle is not.
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
    """The deadline of this thread's operation.

    Args:
        clock: Tells the time.
    """

    _at_s = math.inf  # by the clock's monotonic time
    _latest_s = math.inf

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @contextmanager
    def within(self, timeout_s: float, *, most_s: float = 0.0) -> Iterator[None]:
        """Give what is done in a `with` this long.

        Args:
            timeout_s: How long, if few bytes pass [s].
            most_s: How long at most, however many bytes pass; below `timeout_s` they do not count [s].
        """
        now_s = self._clock.monotonic_s()
        self._at_s, self._latest_s = now_s + timeout_s, now_s + max(timeout_s, most_s)
        try:
            yield
        finally:
            self._at_s = self._latest_s = math.inf

    def remaining_s(self) -> float:
        """Return the time left [s], infinity outside of an operation; raise TimeoutError past the deadline."""
        remaining_s = self._at_s - self._clock.monotonic_s()
        if remaining_s <= 0:
            raise TimeoutError("the operation's time is over")
        return remaining_s

    def passed(self, size_bytes: int) -> None:
        """Allow for the transfer of bytes that have been received or sent."""
        self._at_s = min(self._at_s + size_bytes / LEAST_BYTES_PER_S, self._latest_s)


class TimedSocket:
    """A socket that waits no longer than the deadline of the thread that uses it."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._socket = sock
        self._deadline = deadline
        self._timeout_s: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, timeout_s: float | None) -> None:
        """Set the time-out of an operation without a deadline; 0: do not wait, deadline or not."""
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
        while rest:  # TLS's own starts its time-out again with each record
            self._limit()
            count = self._socket.send(rest, *flags)
            self._deadline.passed(count)
            rest = rest[count:]

    def _limit(self) -> None:
        if self._timeout_s != 0:
            remaining_s = self._deadline.remaining_s()
            self._socket.settimeout(remaining_s if math.isfinite(remaining_s) else self._timeout_s)
