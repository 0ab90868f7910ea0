"""The relay's client of synchronous callers, which ask."""

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
from burstcache.traces import HEADER, header, part

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 1
# A connection that slept longer than this must answer a ping before it is used: the environment may have been frozen
# past the server's patience, and a request into a dead connection would cost its whole time-out.
_TRUSTED_IDLE_S = 5.0
_LEAST_S = 0.01  # of a request whose time was used up by its connection: it has been made for the next one
# Selecting, feeding the stream, waking its reader: after these the loop has read what came while it was at rest.
_LOOP_TURNS_TO_NOTICE_CLOSE = 3


class RelayRequests:
    """Requests over the relay for synchronous callers, any number of threads at a time.

    Each request has a connection to itself, so there are as many as requests were ever under way at once: one in an
    execution environment of the proxy.
    """

    def __init__(
        self, access: RelayAccess, secrets: Secrets, clock: Clock, *, connect_timeout_s: float = _CONNECT_TIMEOUT_S
    ) -> None:
        self._url = access.url
        self._make_connection = partial(_Requests, access, secrets, clock, connect_timeout_s)
        self._idle: list[_Requests] = []  # last in, first out: what is used least ages first
        self._is_closed = False

    def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Return the answer of the process that holds `subject`; None if none does.

        Raises:
            SilentHolderError: A process holds the subject, but did not answer in `timeout_s`, the time to connect
                included.
            RelayDownError: The relay itself does not answer, or the stack has none.
        """
        return self._with_connection(lambda connection: connection.request(subject, payload, timeout_s))

    def tell(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        """Return when the relay has sent a message to all that hold `subject`, before anything that it gets later.

        In a stack without a relay nobody holds anything.

        Raises:
            RelayDownError: The relay does not answer.
        """
        if self._url:
            self._with_connection(lambda connection: connection.tell(subject, payload, timeout_s))

    def close(self) -> None:
        """Leave the relay."""
        self._is_closed = True
        while self._idle:
            with suppress(IndexError):  # another thread closes, too
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
            with part("relay"):
                return use(connection)
        finally:
            self._idle.append(connection)
            if self._is_closed:
                self.close()

    @cached_property
    def _outside_the_loop(self) -> ThreadPoolExecutor:
        """A thread in which a connection's loop may run although the caller's thread runs one: a notebook does."""
        return ThreadPoolExecutor(1, thread_name_prefix="burstcache-relay")


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Requests:
    """One connection for requests, one at a time. Its event loop runs only while a request is under way."""

    def __init__(self, access: RelayAccess, secrets: Secrets, clock: Clock, connect_timeout_s: float) -> None:
        self._access = access
        self._secrets = secrets
        self._clock = clock
        self._connect_timeout_s = connect_timeout_s
        self._loop = clock.new_event_loop()
        self._client: Client | None = None
        self._used_at: Instant | None = None  # None: it is pinged before its next use

    def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes | None:
        return self._loop.run_until_complete(self._request(subject, payload, timeout_s))

    def tell(self, subject: str, payload: bytes, timeout_s: float) -> None:
        self._loop.run_until_complete(self._tell(subject, payload, timeout_s))

    def close(self) -> None:
        self._loop.run_until_complete(self._drop())
        self._loop.close()

    async def _tell(self, subject: str, payload: bytes, timeout_s: float) -> None:
        for is_last in (False, True):  # a connection may prove lost when it is used
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
            headers = {HEADER: trace} if (trace := header()) else None
            left_s = max(answer_by_s - self._loop.time(), _LEAST_S)
            message = await client.request(subject, payload, timeout=left_s, headers=headers)
        except NoRespondersError:
            message = None
        except NoAnswerError as error:
            self._used_at = None  # the relay itself may be dead: force a ping before the next request
            raise SilentHolderError(f"no answer to {subject} in {timeout_s} s") from error
        except Exception as error:
            await self._drop()
            raise RelayDownError(f"{self._access.url}: {error!r}") from error
        self._used_at = instant(self._clock)
        return None if message is None else message.data

    async def _connected(self, within_s: float) -> Client:
        """Return a connection of which an answer has come lately, a new one if need be, or raise RelayDownError."""
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
