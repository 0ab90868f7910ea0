"""Connections of redis-py on which an operation has one deadline, the look-up of a host's name included."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from concurrent.futures import Future
from ipaddress import ip_address
from typing import Any

from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection

from burstcache.adapters.deadline import Deadline, TimedSocket
from burstcache.results.threads import in_thread


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
        return TimedSocket(made, self._deadline)

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> Any:
        if math.isfinite(remaining_s := self._deadline.remaining_s()):  # else the thread that waits for this one counts
            sock.settimeout(remaining_s)
        return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]


class TimedConnection(Timed, Connection):
    """By TCP."""


class TimedSSLConnection(Timed, SSLConnection):
    """By TCP and TLS."""


class TimedUnixConnection(Timed, UnixDomainSocketConnection):
    """By a socket of this machine."""
