"""Connections to Redis: as one of its users, over TLS, to a server that has the stack's certificate and no other."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any

import redis
import redis.asyncio

from burstcache.access import RedisAccess
from burstcache.adapters.certificates import refusal, trusting
from burstcache.adapters.clock import SystemClock, instant, seconds_since
from burstcache.adapters.deadline import Deadline, TimedSocket
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RedisDownError

# Every node shows it, whatever its address: that of an instance is unknown when its certificate is made.
SERVER_NAME = "redis.burstcache.internal"


def connect(
    host: str, port: int, access: RedisAccess, secrets: Secrets, *, deadline: Deadline | None = None, **options: Any
) -> redis.Redis:
    """Return a client that connects at its first use.

    Args:
        host: Name or address of the server.
        port: Where it listens.
        access: As which user to connect, and whom to believe.
        secrets: Gives the user's password.
        deadline: Bounds operations, connections that they need included; None: each read and write has the time-out
            in the options.
        options: More arguments of the library's connections.

    Raises:
        ServiceError: Systems Manager does not give the password.
        ssl.SSLError: The authority is not a certificate.
    """
    arguments = {
        "host": host,
        "port": port,
        "connection_class": PlainConnection,
        "deadline": deadline,
        **arguments_of(access, secrets),
        **options,
    }
    return redis.Redis.from_pool(redis.ConnectionPool(**arguments))


def arguments_of(access: RedisAccess, secrets: Secrets, *, is_async: bool = False) -> dict[str, Any]:
    """Return what a pool of connections needs to know of an access; errors are those of `connect`.

    Args:
        access: As which user to connect, and whom to believe.
        secrets: Gives the user's password.
        is_async: Whether it is a pool of redis.asyncio.
    """
    arguments: dict[str, Any] = {}
    if access.password_parameter:
        arguments |= {"username": access.user or None, "password": secrets.read(access.password_parameter)}
    if access.ca_pem:
        kind = AsyncTlsConnection if is_async else TlsConnection
        arguments |= {"connection_class": kind, "tls": trusting(access.ca_pem)}
    return arguments


class PlainConnection(redis.Connection):
    """A connection that keeps to the deadline of an operation; the library's waits as long for each read and write.

    Its health is checked after a sleep of the machine, too, which the library's clock may not have counted.
    """

    def __init__(self, *, deadline: Deadline | None = None, **options: Any) -> None:
        """Remember the deadline; the other options are those of the library."""
        self._deadline = deadline
        self._clock = SystemClock()
        self._answered_at = instant(self._clock)
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        if self._deadline is None:
            return self._open()
        # Of each step; the server is not waited for longer than the operation's caller waits for all of them.
        self.socket_timeout = self.socket_connect_timeout = self._deadline.remaining_s()
        return TimedSocket(self._open(), self._deadline)

    def _open(self) -> socket.socket:
        """Return a new connection, ready to be written to."""
        plain: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        return plain

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Return an answer, or raise TimeoutError, as the library does."""
        response = super().read_response(*arguments, **options)
        self._answered_at = instant(self._clock)
        return response

    def check_health(self) -> None:
        """Ask whether the server is there if its last answer is some time ago, or raise ConnectionError."""
        if self.health_check_interval and seconds_since(self._clock, self._answered_at) > self.health_check_interval:
            self.next_health_check = 0
        super().check_health()  # type: ignore[no-untyped-call]


class TlsConnection(PlainConnection):
    """A connection that is made and verified with a given context.

    The library's own makes a context for each connection, with all of the machine's authorities, and asks the server
    for the name of its address.
    """

    def __init__(self, *, tls: ssl.SSLContext, **options: Any) -> None:
        """Remember how to connect; the other options are those of the library."""
        self._tls = tls
        super().__init__(**options)

    def _open(self) -> socket.socket:
        plain = super()._open()
        if self._deadline is not None:
            plain.settimeout(self._deadline.remaining_s())
        try:
            return self._tls.wrap_socket(plain, server_hostname=SERVER_NAME)
        except ssl.SSLCertVerificationError as error:
            # Of this class because the library takes every OSError for a failure of the network, and tries again.
            raise RedisDownError(f"Redis at {self.host} {refusal(error)}") from error


class AsyncTlsConnection(redis.asyncio.Connection):
    """A connection of redis.asyncio that is made and verified with a given context."""

    def __init__(self, *, tls: ssl.SSLContext, **options: Any) -> None:
        """Remember how to connect; the other options are those of the library."""
        self._tls = tls
        super().__init__(**options)

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._tls, "server_hostname": SERVER_NAME}

    async def _connect(self) -> None:
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
        except ssl.SSLCertVerificationError as error:
            raise RedisDownError(f"Redis at {self.host} {refusal(error)}") from error
