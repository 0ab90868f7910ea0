"""Connections to the relay: NATS over TLS, as one of the stack's users."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import Any

from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, ConnectionClosedError, UnexpectedEOF
from nats.errors import Error as NatsError

from burstcache.access import RelayAccess
from burstcache.adapters.certificates import client_context, rejection_reason
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RelayDownError

CHECK_TIMEOUT_S = 0.3
# Event loop iterations within which nats-py closes an idle connection. Counting iterations works even on a machine
# that stalls for a second.
_LOOP_TURNS_TO_CLOSE = 10
_MOST_ERRORS = 8  # errors inspected per connection attempt
# A relay that rejects a user sends an error and disconnects. The disconnect may be noticed before the error.
_HANG_UPS = (BrokenPipeError, ConnectionResetError, UnexpectedEOF)


async def connect(access: RelayAccess, secrets: Secrets, *, timeout_s: float, **options: Any) -> Client:
    """Connect to the stack's relay and return the client.

    Args:
        access: Address of the relay, and the user to connect as.
        secrets: Source of the user's password.
        timeout_s: Timeout of the whole attempt [s].
        options: Further arguments of Client.connect. Without `allow_reconnect=True`, lost and refused connections are
            not retried, and the caller falls back to S3.

    Raises:
        RelayDownError: The relay is unreachable or rejects the password, or the password is not readable.
    """
    client, errors = Client(), deque[Exception](maxlen=_MOST_ERRORS)

    async def collect(error: Exception) -> None:  # without a callback nats-py prints a stack trace for each error
        errors.append(error)
        if _is_refusal(error) or isinstance(error, _HANG_UPS):  # including later reconnects
            secrets.forget()

    try:
        arguments = await _connect_arguments(access, secrets) | {"error_cb": collect} | options
        if not arguments["allow_reconnect"]:
            # By default nats-py retries up to 60 times, 2 s apart, even for the first connection.
            arguments |= {"max_reconnect_attempts": 1, "reconnect_time_wait": 0}
        await asyncio.wait_for(client.connect(access.url, **arguments), timeout_s)
        _mark_tls(client)
        return client
    except asyncio.CancelledError:
        await hang_up(client)
        raise
    except Exception as error:
        await hang_up(client)
        # nats-py retries after the first error until the timeout, so `error` may be just the timeout.
        cause = next(filter(_is_refusal, (*errors, error)), errors[-1] if errors else error)
        if _is_refusal(cause) or isinstance(cause, _HANG_UPS):
            secrets.forget()
        raise RelayDownError(f"no connection to the relay {access.url}: {_reason(cause, access.user)}") from cause


def _mark_tls(client: Client) -> None:
    """Mark a connection's stream as TLS, since nats-py upgrades it without notifying asyncio.

    Otherwise asyncio prints a warning when the relay disconnects, because it expects a half-open connection, which TLS
    does not support.
    """
    if isinstance(tcp := client._transport, TcpTransport) and tcp._io_writer:
        transport = tcp._io_writer.transport
        if isinstance(protocol := transport.get_protocol(), asyncio.StreamReaderProtocol):
            protocol._over_ssl = transport.get_extra_info("sslcontext") is not None  # type: ignore[attr-defined]


def _is_refusal(error: Exception) -> bool:
    """Return True if the relay rejects a user. During the handshake nats-py raises its base exception for this."""
    return isinstance(error, AuthorizationError) or type(error) is NatsError


def _reason(cause: Exception, user: str) -> str:
    if _is_refusal(cause):
        return f"it refuses the password of user {user}: {cause}"
    if isinstance(cause, _HANG_UPS):
        return f"it hangs up while user {user} logs in, as it does after a wrong password: {cause!r}"
    return f"it {rejection_reason(cause)}" if isinstance(cause, ssl.SSLCertVerificationError) else repr(cause)


async def _connect_arguments(access: RelayAccess, secrets: Secrets) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "name": f"burstcache-{access.user}",
        "allow_reconnect": False,
    }
    if access.password_parameter:
        password = await asyncio.to_thread(secrets.read, access.password_parameter)
        arguments |= {"user": access.user, "password": password}
    if access.user:  # the relay lets users subscribe only to responses to their own requests
        arguments["inbox_prefix"] = f"_INBOX.{access.user}"
    if access.url.startswith("tls://"):
        arguments["tls"] = client_context(access.ca_pem)
    return arguments


async def hang_up(client: Client) -> None:
    """Close a connection without waiting for the relay's TLS shutdown, since the relay may be dead or frozen."""
    closing = asyncio.ensure_future(client.close())
    for _ in range(_LOOP_TURNS_TO_CLOSE):
        await asyncio.sleep(0)
    if isinstance(tcp := client._transport, TcpTransport) and tcp._io_writer:
        tcp._io_writer.transport.abort()  # no effect on a closed transport
    with suppress(Exception):  # failed sends on a dead connection do not matter
        await asyncio.wait_for(closing, CHECK_TIMEOUT_S)
    await asyncio.sleep(0)  # close the socket, since the loop may stop right after this


async def flush(client: Client, timeout_s: float) -> None:
    """Return once the relay has processed all messages sent so far.

    nats-py writes a PING immediately but buffers messages, so only a second PING is sure to follow the messages.
    """
    for _ in range(2):
        await ping(client, timeout_s)


async def ping(client: Client, timeout_s: float) -> None:
    """Return once the relay has responded to a PING. Otherwise raise an exception of nats-py or TimeoutError."""
    _check_reader(client)  # otherwise nats-py returns immediately, even while it reconnects
    await client.flush(timeout=timeout_s)  # type: ignore[arg-type]
    _check_reader(client)


def _check_reader(client: Client) -> None:
    if not client.is_connected or client._reading_task is None or client._reading_task.done():
        raise ConnectionClosedError
