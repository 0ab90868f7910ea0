"""Requests over the relay, for synchronous callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from typing import TypeVar

from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NoAnswerError

from burstcache.access import RelayAccess
from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.relay import CHECK_TIMEOUT_S, connect, flush, hang_up, ping
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RelayDownError, SilentHolderError
from burstcache.traces import HEADER, subsegment, trace_header

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 1
# A connection idle for longer is pinged before use. The server may have closed it while the environment was frozen, and
# a request on a dead connection would block for its whole timeout.
_TRUSTED_IDLE_S = 5.0
_LEAST_S = 0.01  # for a request that spent its timeout on connecting. The next request reuses the connection
# Event loop iterations after which a connection has read all data received while idle: select, feed the stream, and
# wake its reader.
_LOOP_TURNS_TO_NOTICE_CLOSE = 3


class RelayRequests:
    """A thread-safe pool of relay connections for synchronous callers.

    Each request has exclusive use of a connection, so the pool grows to the peak concurrency. In the proxy's execution
    environments, this is one.
    """

    def __init__(
        self, access: RelayAccess, secrets: Secrets, clock: Clock, *, connect_timeout_s: float = _CONNECT_TIMEOUT_S
    ) -> None:
        self._url = access.url
        self._make_connection = partial(_Requests, access, secrets, clock, connect_timeout_s)
        self._idle: list[_Requests] = []  # last in, first out, so that surplus connections stay idle
        self._is_closed = False

    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Send a request and return the response, or None if the subject has no responders.

        Raises:
            SilentHolderError: A responder exists, but did not respond within `timeout_s`, including the connect.
            RelayDownError: The relay itself is unreachable, or the stack has no relay.
        """
        return self._with_connection(lambda connection: connection.request(subject, payload, timeout_s))

    def send_order(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        """Publish a message, and return once the relay has routed it to all subscribers, ahead of later messages.

        Without a relay, do nothing.

        Raises:
            RelayDownError: The relay is unreachable.
        """
        if self._url:
            self._with_connection(lambda connection: connection.publish(subject, payload, timeout_s))

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        while self._idle:
            with suppress(IndexError):  # another thread may close the pool concurrently
                connection = self._idle.pop()
                self._outside_the_loop.submit(connection.close).result() if _is_in_event_loop() else connection.close()

    def _with_connection(self, use: Callable[[_Requests], T]) -> T:
        if not self._url:
            raise RelayDownError("the stack has no relay")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._make_connection()
        try:
            if _is_in_event_loop():
                return self._outside_the_loop.submit(use, connection).result()
            with subsegment("relay"):
                return use(connection)
        finally:
            self._idle.append(connection)
            if self._is_closed:
                self.close()

    @cached_property
    def _outside_the_loop(self) -> ThreadPoolExecutor:
        """A thread for connections' event loops, used if the caller's thread already runs a loop, as in a notebook."""
        return ThreadPoolExecutor(1, thread_name_prefix="burstcache-relay")


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Requests:
    """One relay connection for one request at a time. Its event loop runs only during a request."""

    def __init__(self, access: RelayAccess, secrets: Secrets, clock: Clock, connect_timeout_s: float) -> None:
        self._access = access
        self._secrets = secrets
        self._clock = clock
        self._connect_timeout_s = connect_timeout_s
        self._loop = clock.new_event_loop()
        self._client: Client | None = None
        self._used_at: Instant | None = None  # None: ping before next use

    def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes | None:
        return self._loop.run_until_complete(self._request(subject, payload, timeout_s))

    def publish(self, subject: str, payload: bytes, timeout_s: float) -> None:
        self._loop.run_until_complete(self._publish(subject, payload, timeout_s))

    def close(self) -> None:
        self._loop.run_until_complete(self._drop())
        self._loop.close()

    async def _publish(self, subject: str, payload: bytes, timeout_s: float) -> None:
        for is_last in (False, True):  # retry once, since the connection may have been lost while idle
            client = await self._connected(self._connect_timeout_s)
            try:
                await client.publish(subject, payload)
                await flush(client, timeout_s)
            except Exception as error:
                await self._drop()
                if is_last:
                    raise RelayDownError(f"{self._access.url}: {error!r}") from error
            else:
                self._used_at = instant(self._clock)
                return

    async def _request(self, subject: str, payload: bytes, timeout_s: float) -> bytes | None:
        answer_by_s = self._loop.time() + timeout_s
        client = await self._connected(min(timeout_s, self._connect_timeout_s))
        try:
            headers = {HEADER: trace} if (trace := trace_header()) else None
            left_s = max(answer_by_s - self._loop.time(), _LEAST_S)
            message = await client.request(subject, payload, timeout=left_s, headers=headers)
        except NoRespondersError:
            message = None
        except NoAnswerError as error:
            self._used_at = None  # the relay itself may be down, so ping it before the next request
            raise SilentHolderError(f"no answer to {subject} in {timeout_s} s") from error
        except Exception as error:
            await self._drop()
            raise RelayDownError(f"{self._access.url}: {error!r}") from error
        self._used_at = instant(self._clock)
        return None if message is None else message.data

    async def _connected(self, within_s: float) -> Client:
        """Return a connection that was alive recently, reconnecting if necessary, or raise RelayDownError."""
        give_up_s = self._loop.time() + within_s
        for _ in range(_LOOP_TURNS_TO_NOTICE_CLOSE):
            await asyncio.sleep(0)
        if self._client is not None and not self._is_trusted():
            await self._check(self._client, min(CHECK_TIMEOUT_S, within_s / 2))
        if self._client is None or not self._client.is_connected:
            await self._drop()
            left_s = max(give_up_s - self._loop.time(), _LEAST_S)
            self._client = await connect(self._access, self._secrets, timeout_s=left_s)
            self._used_at = instant(self._clock)
        return self._client

    def _is_trusted(self) -> bool:
        return self._used_at is not None and seconds_since(self._clock, self._used_at) <= _TRUSTED_IDLE_S

    async def _check(self, client: Client, timeout_s: float) -> None:
        try:
            await ping(client, timeout_s)
        except Exception:
            await self._drop()

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await hang_up(client)
