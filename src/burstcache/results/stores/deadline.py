"""Deadlines for redis-py connections: each operation has one deadline, DNS lookups included."""

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


def connect_within(connect: Callable[[], socket.socket], timeout_s: float) -> socket.socket:
    """Connect, or raise TimeoutError. A connection established too late is closed."""
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
        return connecting.result()  # established just now


def _is_name(host: str) -> bool:
    """Whether a host needs a DNS lookup."""
    try:
        return bool(host) and not ip_address(host)
    except ValueError:
        return True


class Timed:
    """A mixin for connections that observe the deadline passed as the pool's argument `deadline`."""

    def __init__(self, *, deadline: Deadline, **arguments: Any) -> None:
        self._deadline = deadline
        super().__init__(**arguments)

    def _connect(self: Any) -> Any:
        timeout_s = self.socket_timeout = self.socket_connect_timeout = self._deadline.remaining_s()
        connect: Callable[[], socket.socket] = super()._connect  # type: ignore[misc]
        made = connect_within(connect, timeout_s) if _is_name(getattr(self, "host", "")) else connect()
        self.socket_timeout = None
        return TimedSocket(made, self._deadline)

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> Any:
        if math.isfinite(
            remaining_s := self._deadline.remaining_s()
        ):  # otherwise the waiting thread enforces the deadline
            sock.settimeout(remaining_s)
        return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]


class TimedConnection(Timed, Connection):
    """A connection over TCP."""


class TimedSSLConnection(Timed, SSLConnection):
    """A connection over TLS."""


class TimedUnixConnection(Timed, UnixDomainSocketConnection):
    """A connection over a Unix domain socket."""
