"""Connections of redis-py on which an operation has one deadline, whatever it consists of.

redis-py's own time-out is that of each read and write: a server that answers a byte at a time, or a connection that is
lost and made anew, would be waited for many times over. Only the look-up of a host's name is not covered.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection


class Deadline(threading.local):
    """When this thread's operation has to be over, by the monotonic clock [s]."""

    at_s = float("inf")

    @contextmanager
    def within(self, timeout_s: float) -> Iterator[None]:
        """Give what is done in a `with` this long [s]."""
        self.at_s = time.monotonic() + timeout_s
        try:
            yield
        finally:
            self.at_s = float("inf")

    def remaining_s(self) -> float:
        """Return what is left; raise TimeoutError if nothing is."""
        remaining_s = self.at_s - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError("the operation's time is over")
        return remaining_s


class _TimedSocket:
    """A socket that waits no longer than the deadline of the thread that uses it."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._socket = sock
        self._deadline = deadline
        self._timeout_s: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, timeout_s: float | None) -> None:
        """Wait no longer than this either; 0: do not wait."""
        self._timeout_s = timeout_s
        self._socket.settimeout(timeout_s)

    def recv(self, *arguments: Any) -> bytes:
        self._limit()
        return self._socket.recv(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._limit()
        return self._socket.recv_into(*arguments)

    def sendall(self, *arguments: Any) -> None:
        self._limit()
        self._socket.sendall(*arguments)

    def _limit(self) -> None:
        if self._timeout_s != 0:
            self._socket.settimeout(self._deadline.remaining_s())


class Timed:
    """A connection within a deadline: the argument `deadline` of the pool."""

    def __init__(self, *, deadline: Deadline, **arguments: Any) -> None:
        self._deadline = deadline
        super().__init__(**arguments)

    def _connect(self: Any) -> Any:
        self.socket_timeout = self.socket_connect_timeout = self._deadline.remaining_s()
        sock = _TimedSocket(super()._connect(), self._deadline)  # type: ignore[misc]
        self.socket_timeout = None
        return sock


class TimedConnection(Timed, Connection):
    """By TCP."""


class TimedSSLConnection(Timed, SSLConnection):
    """By TCP and TLS."""


class TimedUnixConnection(Timed, UnixDomainSocketConnection):
    """By a socket of this machine."""
