"""The relay's client: NATS over TLS, as an asyncio connection and, for the synchronous proxy, behind a facade."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nats.aio.client import Client
from nats.errors import AuthorizationError, NoRespondersError
from nats.errors import TimeoutError as NoAnswerError

from burstcache.adapters.secrets import forget_secrets, secret
from burstcache.core.errors import RelayDownError
from burstcache.settings import Settings

CONNECT_TIMEOUT_S = 1
# A connection that slept longer than this is asked for a sign of life before it is used: the environment may have been
# frozen past the server's patience, and a request into a dead connection would cost its whole time-out.
_TRUSTED_IDLE_S = 5.0
_CHECK_TIMEOUT_S = 0.3
_NEVER_S = float("-inf")
# Selecting, feeding the stream, waking its reader: what came while the loop was at rest has been read after these.
_TURNS_TO_READ_A_GOODBYE = 3


async def connect(settings: Settings, *, timeout_s: float = CONNECT_TIMEOUT_S, **options: Any) -> Client:
    """Return a connection to the stack's relay as the user RELAY_USER.

    Args:
        settings: Where the relay is, and who we are.
        timeout_s: How long to try at most [s].
        options: More arguments of Client.connect. Without `allow_reconnect=True` a lost connection stays lost, and a
            refused one is not tried again: its owner has something better to do than to wait.

    Raises:
        RelayDownError: No relay, no password, or a password that the relay refuses.
    """
    client = Client()
    try:
        arguments = _connect_arguments(settings) | options
        if not arguments["allow_reconnect"]:
            # Otherwise nats-py waits 2 s and tries again up to 60 times, even for the first connection.
            arguments |= {"max_reconnect_attempts": 1, "reconnect_time_wait": 0}
        await asyncio.wait_for(client.connect(settings.relay_url, **arguments), timeout_s)
        return client
    except Exception as error:
        await _hang_up(client)
        if isinstance(error, AuthorizationError) or "authorization violation" in str(error).lower():
            forget_secrets()
        raise RelayDownError(f"no connection to the relay {settings.relay_url}: {error!r}") from error


def _connect_arguments(settings: Settings) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "name": f"burstcache-{settings.relay_user}",
        "allow_reconnect": False,
        "error_cb": _ignore,  # the default one prints a stack trace for each; callers see what failed
    }
    if settings.relay_secret_arn:
        password = secret(settings.relay_secret_arn)[settings.relay_user]
        arguments |= {"user": settings.relay_user, "password": password}
    if settings.relay_user:  # the relay lets everybody hear the answers to their own requests only
        arguments["inbox_prefix"] = f"_INBOX.{settings.relay_user}"
    if settings.relay_url.startswith("tls://"):
        arguments["tls"] = ssl.create_default_context(cadata=settings.relay_ca_pem or None)
    return arguments


async def _ignore(_: Exception) -> None:
    pass


async def _hang_up(client: Client) -> None:
    with suppress(Exception):  # a dead connection has no last words that matter
        await asyncio.wait_for(client.close(), _CHECK_TIMEOUT_S)


class SilentHolderError(RelayDownError):
    """Somebody holds the subject, but does not answer."""


class RelayRequests:
    """Requests over the relay for synchronous callers, one at a time: one event loop per execution environment.

    The loop runs only while a request is under way, as the environment itself does.
    """

    def __init__(self, settings: Settings, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        self._used_at_s = _NEVER_S

    def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Return the answer of whoever holds `subject`; None: nobody does.

        Raises:
            SilentHolderError: Somebody holds the subject, but did not answer in `timeout_s`.
            RelayDownError: The relay itself does not answer.
        """
        return self._loop.run_until_complete(self._request(subject, payload, timeout_s))

    def close(self) -> None:
        """Leave the relay."""
        self._loop.run_until_complete(self._drop())
        self._loop.close()

    async def _request(self, subject: str, payload: bytes, timeout_s: float) -> bytes | None:
        client = await self._connected()
        try:
            message = await client.request(subject, payload, timeout=timeout_s)
        except NoRespondersError:
            message = None
        except NoAnswerError as error:
            self._used_at_s = _NEVER_S  # or is it the relay that is silent? Whoever comes next asks first
            raise SilentHolderError(f"no answer to {subject} in {timeout_s} s") from error
        except Exception as error:
            await self._drop()
            raise RelayDownError(f"{self._settings.relay_url}: {error!r}") from error
        self._used_at_s = self._clock_s()
        return None if message is None else message.data

    async def _connected(self) -> Client:
        for _ in range(_TURNS_TO_READ_A_GOODBYE):
            await asyncio.sleep(0)
        if self._client is not None and self._clock_s() - self._used_at_s > _TRUSTED_IDLE_S:
            await self._check(self._client)
        if self._client is None or not self._client.is_connected:
            await self._drop()
            self._client = await connect(self._settings)
            self._used_at_s = self._clock_s()
        return self._client

    async def _check(self, client: Client) -> None:
        try:
            await client.flush(timeout=_CHECK_TIMEOUT_S)  # type: ignore[arg-type]
        except Exception:
            await self._drop()

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _hang_up(client)
