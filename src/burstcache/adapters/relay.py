"""A connection to the relay: NATS over TLS, as one of the stack's users."""

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
from burstcache.adapters.certificates import refusal, trusting
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RelayDownError

CHECK_TIMEOUT_S = 0.3
# Where nothing has to be waited for, nats-py closes within these: in time, even on a machine that is busy for a second.
_LOOP_TURNS_TO_CLOSE = 10
_HEARD = 8  # errors of one attempt to connect that are looked at
# A relay that refuses a user says so and hangs up, and the first is lost when the second overtakes it.
_ENDED = (BrokenPipeError, ConnectionResetError, UnexpectedEOF)


async def connect(access: RelayAccess, secrets: Secrets, *, timeout_s: float, **options: Any) -> Client:
    """Return a connection to the stack's relay.

    Args:
        access: Where the relay is, and as which user to connect.
        secrets: Gives the user's password.
        timeout_s: How long to try at most [s].
        options: More arguments of Client.connect. Without `allow_reconnect=True` a lost connection stays lost, and a
            refused one is not retried; the caller falls back to S3.

    Raises:
        RelayDownError: No relay, no password, or a password that the relay refuses.
    """
    client, heard = Client(), deque[Exception](maxlen=_HEARD)

    async def hear(error: Exception) -> None:  # without it nats-py prints a stack trace for each
        heard.append(error)
        if _is_refusal(error) or isinstance(error, _ENDED):  # also later, when a lost connection is tried again
            secrets.forget()

    try:
        arguments = await _connect_arguments(access, secrets) | {"error_cb": hear} | options
        if not arguments["allow_reconnect"]:
            # Otherwise nats-py waits 2 s and tries again up to 60 times, even for the first connection.
            arguments |= {"max_reconnect_attempts": 1, "reconnect_time_wait": 0}
        await asyncio.wait_for(client.connect(access.url, **arguments), timeout_s)
        _note_tls(client)
        return client
    except asyncio.CancelledError:
        await hang_up(client)
        raise
    except Exception as error:
        await hang_up(client)
        # nats-py goes on after the first, until the time is over.
        cause = next(filter(_is_refusal, (*heard, error)), heard[-1] if heard else error)
        if _is_refusal(cause) or isinstance(cause, _ENDED):
            secrets.forget()
        raise RelayDownError(f"no connection to the relay {access.url}: {_reason(cause, access.user)}") from cause


def _note_tls(client: Client) -> None:
    """Let the stream of a connection know that it goes over TLS, which nats-py has it begin under asyncio's hands.

    Otherwise asyncio warns on standard error when the relay hangs up: without TLS one could still be written to.
    """
    if isinstance(tcp := client._transport, TcpTransport) and tcp._io_writer:
        transport = tcp._io_writer.transport
        if isinstance(protocol := transport.get_protocol(), asyncio.StreamReaderProtocol):
            protocol._over_ssl = transport.get_extra_info("sslcontext") is not None  # type: ignore[attr-defined]


def _is_refusal(error: Exception) -> bool:
    """Whether the relay refuses a user: at the handshake nats-py raises its base class, and no other error of it."""
    return isinstance(error, AuthorizationError) or type(error) is NatsError


def _reason(cause: Exception, user: str) -> str:
    if _is_refusal(cause):
        return f"it refuses the password of user {user}: {cause}"
    if isinstance(cause, _ENDED):
        return f"it hangs up while user {user} logs in, as it does after a wrong password: {cause!r}"
    return f"it {refusal(cause)}" if isinstance(cause, ssl.SSLCertVerificationError) else repr(cause)


async def _connect_arguments(access: RelayAccess, secrets: Secrets) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "name": f"burstcache-{access.user}",
        "allow_reconnect": False,
    }
    if access.password_parameter:
        password = await asyncio.to_thread(secrets.read, access.password_parameter)
        arguments |= {"user": access.user, "password": password}
    if access.user:  # the relay lets a user hear the answers to its own requests only
        arguments["inbox_prefix"] = f"_INBOX.{access.user}"
    if access.url.startswith("tls://"):
        arguments["tls"] = trusting(access.ca_pem)
    return arguments


async def hang_up(client: Client) -> None:
    """Leave the relay, which may be dead, or have stopped: its part in the end of TLS is not waited for."""
    closing = asyncio.ensure_future(client.close())
    for _ in range(_LOOP_TURNS_TO_CLOSE):
        await asyncio.sleep(0)
    if isinstance(tcp := client._transport, TcpTransport) and tcp._io_writer:
        tcp._io_writer.transport.abort()  # nothing if it is closed
    with suppress(Exception):  # nothing sent on a dead connection matters
        await asyncio.wait_for(closing, CHECK_TIMEOUT_S)
    await asyncio.sleep(0)  # the loop may end right after this; now the socket is closed


async def flush(client: Client, timeout_s: float) -> None:
    """Return when the relay has processed what was sent.

    nats-py writes a PING at once and all else a moment later, so only the second PING is known to come after it.
    """
    for _ in range(2):
        await ping(client, timeout_s)


async def ping(client: Client, timeout_s: float) -> None:
    """Return when the relay has answered; raise an error of nats-py or TimeoutError if it does not."""
    _see_that_it_is_read(client)  # or nats-py returns at once, also while it connects again
    await client.flush(timeout=timeout_s)  # type: ignore[arg-type]
    _see_that_it_is_read(client)


def _see_that_it_is_read(client: Client) -> None:
    if not client.is_connected or client._reading_task is None or client._reading_task.done():
        raise ConnectionClosedError
