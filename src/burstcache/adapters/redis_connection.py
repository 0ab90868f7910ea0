"""Connections to Redis, as one of its users, over TLS pinned to the stack's own CA."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any

import redis
import redis.asyncio

from burstcache.access import RedisAccess
from burstcache.adapters.certificates import client_context, rejection_reason
from burstcache.adapters.clock import SystemClock, instant, seconds_since
from burstcache.adapters.deadline import Deadline, TimedSocket
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RedisDownError

# Name in every node's certificate, which is issued before the instance's address is known.
SERVER_NAME = "redis.burstcache.internal"


def connect(
    host: str, port: int, access: RedisAccess, secrets: Secrets, *, deadline: Deadline | None = None, **options: Any
) -> redis.Redis:
    """Return a client that connects on first use.

    Args:
        host: Name or address of the server.
        port: Port of the server.
        access: User to connect as, and the CA to trust.
        secrets: Source of the user's password.
        deadline: Deadline of each operation, including the connect. None: the timeouts in the options apply to each
            read and write.
        options: Further arguments of redis-py's connections.

    Raises:
        ServiceError: Systems Manager does not return the password.
        ssl.SSLError: The CA is not a certificate.
    """
    arguments = {
        "host": host,
        "port": port,
        "connection_class": PlainConnection,
        "deadline": deadline,
        **connection_arguments(access, secrets),
        **options,
    }
    return redis.Redis.from_pool(redis.ConnectionPool(**arguments))


def connection_arguments(access: RedisAccess, secrets: Secrets, *, is_async: bool = False) -> dict[str, Any]:
    """Return a connection pool's arguments for credentials and TLS. Raise the errors of `connect`.

    Args:
        access: User to connect as, and the CA to trust.
        secrets: Source of the user's password.
        is_async: True for a pool of redis.asyncio.
    """
    arguments: dict[str, Any] = {}
    if access.password_parameter:
        arguments |= {"username": access.user or None, "password": secrets.read(access.password_parameter)}
    if access.ca_pem:
        kind = AsyncTlsConnection if is_async else TlsConnection
        arguments |= {"connection_class": kind, "tls": client_context(access.ca_pem)}
    return arguments


def is_refusal(error: BaseException | None) -> bool:
    """Return whether Redis answered and rejected the user or the password."""
    return isinstance(error, redis.AuthenticationError)


def is_silence(error: BaseException | None) -> bool:
    """Return whether Redis did not answer: no connection, a lost one, or a timeout."""
    return isinstance(error, (redis.ConnectionError, redis.TimeoutError, OSError)) and not is_refusal(error)


class PlainConnection(redis.Connection):
    """A connection that enforces a deadline on whole operations, whereas redis-py's timeout restarts with each read.

    It also checks its health after the machine has slept, since redis-py's clock may not count that time.
    """

    def __init__(self, *, deadline: Deadline | None = None, **options: Any) -> None:
        """Set the deadline. All other options are redis-py's."""
        self._deadline = deadline
        self._clock = SystemClock()
        self._answered_at = instant(self._clock)
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        if self._deadline is None:
            return self._open()
        # redis-py applies these to each step. TimedSocket bounds their sum.
        self.socket_timeout = self.socket_connect_timeout = self._deadline.remaining_s()
        return TimedSocket(self._open(), self._deadline)

    def _open(self) -> socket.socket:
        """Open and return a socket ready for writing."""
        plain: socket.socket = super()._connect()  # type: ignore[no-untyped-call]
        return plain

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Read a response as redis-py does, and record its arrival time."""
        response = super().read_response(*arguments, **options)
        self._answered_at = instant(self._clock)
        return response

    def check_health(self) -> None:
        """Ping the server if the connection was idle by either clock. Raise ConnectionError if it fails."""
        if self.health_check_interval and seconds_since(self._clock, self._answered_at) > self.health_check_interval:
            self.next_health_check = 0
        super().check_health()  # type: ignore[no-untyped-call]


class TlsConnection(PlainConnection):
    """A TLS connection with a shared context.

    redis-py's own class loads a context per connection, with all of the machine's CAs, and verifies the certificate
    against the server's address.
    """

    def __init__(self, *, tls: ssl.SSLContext, **options: Any) -> None:
        """Set the TLS context. All other options are redis-py's."""
        self._tls = tls
        super().__init__(**options)

    def _open(self) -> socket.socket:
        plain = super()._open()
        if self._deadline is not None:
            plain.settimeout(self._deadline.remaining_s())
        try:
            return self._tls.wrap_socket(plain, server_hostname=SERVER_NAME)
        except ssl.SSLCertVerificationError as error:
            # Not an OSError, since redis-py would retry that as a network failure.
            raise RedisDownError(f"Redis at {self.host} {rejection_reason(error)}") from error


class AsyncTlsConnection(redis.asyncio.Connection):
    """A TLS connection of redis.asyncio with a shared context."""

    def __init__(self, *, tls: ssl.SSLContext, **options: Any) -> None:
        """Set the TLS context. All other options are redis-py's."""
        self._tls = tls
        super().__init__(**options)

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._tls, "server_hostname": SERVER_NAME}

    async def _connect(self) -> None:
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
        except ssl.SSLCertVerificationError as error:
            raise RedisDownError(f"Redis at {self.host} {rejection_reason(error)}") from error
