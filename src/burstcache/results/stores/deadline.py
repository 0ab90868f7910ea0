"""Connections of redis-py on which an operation has one deadline, whatever it consists of.

redis-py's own time-out is that of each read and write: a server that answers a byte at a time, or a connection that is
lost and made anew, would be waited for many times over; and the look-up of a host's name has none at all.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection

from burstcache.adapters.clock import Clock
from burstcache.results.threads import in_thread


class Deadline(threading.local):
    """When this thread's operation has to be over.

    Args:
        clock: What says when that is.
    """

    at_s = float("inf")  # by the clock's monotonic time

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @contextmanager
    def within(self, timeout_s: float) -> Iterator[None]:
        """Give what is done in a `with` this long [s]."""
        self.at_s = self._clock.monotonic_s() + timeout_s
        try:
            yield
        finally:
            self.at_s = float("inf")

    def remaining_s(self) -> float:
        """Return what is left; raise TimeoutError if nothing is."""
        remaining_s = self.at_s - self._clock.monotonic_s()
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


def in_time(connect: Callable[[], socket.socket], timeout_s: float) -> socket.socket:
    """Return a new connection, or raise TimeoutError; one that is made too late is closed."""
    connecting: Future[socket.socket] = Future()

    def work() -> None:
        try:
            made = connect()
        except Exception as error:
            if connecting.set_running_or_notify_cancel():
                connecting.set_exception(error)
        else:
            if connecting.set_running_or_notify_cancel():
                connecting.set_result(made)
            else:
                made.close()

    in_thread(work)
    try:
        return connecting.result(timeout_s)
    except TimeoutError:
        if connecting.cancel():
            raise
        return connecting.result()  # it was made in this moment


def _is_name(host: str) -> bool:
    """Whether a host has to be looked up."""
    try:
        return bool(host) and not ip_address(host)
    except ValueError:
        return True


class Timed:
    """A connection within a deadline: the argument `deadline` of the pool."""

    def __init__(self, *, deadline: Deadline, **arguments: Any) -> None:
        self._deadline = deadline
        super().__init__(**arguments)

    def _connect(self: Any) -> Any:
        timeout_s = self.socket_timeout = self.socket_connect_timeout = self._deadline.remaining_s()
        connect: Callable[[], socket.socket] = super()._connect  # type: ignore[misc]
        made = in_time(connect, timeout_s) if _is_name(getattr(self, "host", "")) else connect()
        self.socket_timeout = None
        return _TimedSocket(made, self._deadline)


class TimedConnection(Timed, Connection):
    """By TCP."""


class TimedSSLConnection(Timed, SSLConnection):
    """By TCP and TLS."""


class TimedUnixConnection(Timed, UnixDomainSocketConnection):
    """By a socket of this machine."""
