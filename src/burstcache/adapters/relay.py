"""The relay's clients: NATS over TLS, for a cache function that listens and for synchronous callers that ask."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import AuthorizationError, NoRespondersError, UnexpectedEOF
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NoAnswerError

from burstcache.adapters.certificates import refusal, trusting
from burstcache.adapters.clock import Clock
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RelayDownError, ServiceError, SilentHolderError
from burstcache.core.messages.relay import hash_of
from burstcache.settings import RelayAccess
from burstcache.traces import HEADER, answering, header, part

T = TypeVar("T")
Respond = Callable[[bytes], Awaitable[None]]
Answer = Callable[[bytes, Respond], Awaitable[None]]

_CONNECT_TIMEOUT_S = 1
_LISTENER_CONNECT_TIMEOUT_S = 5  # only its state waits for a life that starts, and many may connect at once
# A connection that slept longer than this must answer a ping before it is used: the environment may have been frozen
# past the server's patience, and a request into a dead connection would cost its whole time-out.
_TRUSTED_IDLE_S = 5.0
_CHECK_TIMEOUT_S = 0.3
_LEAST_S = 0.01  # of a request whose time was used up by its connection: it has been made for the next one
_NEVER_S = float("-inf")
# Selecting, feeding the stream, waking its reader: after these the loop has read what came while it was at rest.
_LOOP_TURNS_TO_NOTICE_CLOSE = 3
MOST_WAITING = 64  # as many readers of one object as a busy stack has at once; each waits for those before it
_HEARD = 8  # errors of one attempt to connect that are looked at
# A relay that refuses a user says so and hangs up, and the first is lost when the second overtakes it.
_ENDED = (BrokenPipeError, ConnectionResetError, UnexpectedEOF)
_GRACE_S = 0.05  # what is still on its way when a subscription ends; by measurement this loses nothing


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
        return client
    except asyncio.CancelledError:
        await _hang_up(client)
        raise
    except Exception as error:
        await _hang_up(client)
        # nats-py goes on after the first, until the time is over.
        cause = next(filter(_is_refusal, (*heard, error)), heard[-1] if heard else error)
        if _is_refusal(cause) or isinstance(cause, _ENDED):
            secrets.forget()
        raise RelayDownError(f"no connection to the relay {access.url}: {_reason(cause, access.user)}") from cause


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


async def _hang_up(client: Client) -> None:
    with suppress(Exception):  # nothing sent on a dead connection matters
        await asyncio.wait_for(client.close(), _CHECK_TIMEOUT_S)


def _ignored(hears: bool) -> None:
    """Do nothing about a lost connection."""


class RelayListener:
    """The connection of one cache function's environment; it outlives the environment's lives."""

    def __init__(self, access: RelayAccess, secrets: Secrets) -> None:
        self._access = access
        self._secrets = secrets
        self._client: Client | None = None
        self._hears: Callable[[bool], None] = _ignored
        self._losses = 0
        self._confirming: set[asyncio.Task[None]] = set()

    def follow_connection(self, hears: Callable[[bool], None]) -> None:
        """Call `hears` whenever messages may have been missed.

        Args:
            hears: With False when the connection is lost; with True when it is back, and the relay is known to have all
                subscriptions again.
        """
        self._hears = hears

    async def open(self) -> None:
        """Be connected: the connection of the last life may have died while the environment was frozen.

        Raises:
            RelayDownError: As for `connect`.
            ServiceError: Systems Manager does not give the password.
        """
        if self._client is not None:
            try:
                await self.flush(timeout_s=_CHECK_TIMEOUT_S)
                return
            except Exception:
                await self.close()
        try:
            self._client = await connect(
                self._access,
                self._secrets,
                timeout_s=_LISTENER_CONNECT_TIMEOUT_S,
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                disconnected_cb=self._lose,
                reconnected_cb=self._find,
            )
        except RelayDownError as error:
            if isinstance(error.__cause__, ServiceError):
                raise error.__cause__ from None  # the relay has not been asked
            raise

    async def close(self) -> None:
        """Leave the relay."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def listen(
        self,
        subject: str,
        *,
        queue: str,
        answer: Answer,
        after: Subscription | None = None,
        busy: bytes | None = None,
    ) -> Subscription:
        """Answer messages on `subject`.

        Of several listeners of one queue group exactly one gets each message. Without one (an empty text) all of them
        do, and the first answer counts.

        Args:
            subject: What to listen to.
            queue: The queue group.
            answer: Answers a message.
            after: Another subscription, whose `answer` never waits: what came by it first is answered first. The relay
                sends in order, but nats-py handles each subscription in a task of its own.
            busy: The answer to a message behind which more wait than are answered soon: its sender has an alternative.
                None: they all wait.
        """

        made: list[Subscription] = []

        async def on_message(message: Msg) -> None:
            while after is not None and after.pending_msgs:
                await asyncio.sleep(0)
            if busy is not None and made and made[0].pending_msgs > MOST_WAITING:
                return await message.respond(busy)
            caller = (message.headers or {}).get(HEADER, "")
            with answering(caller, key_hash=hash_of(subject)):
                await answer(message.data, message.respond)

        made.append(await self._connected.subscribe(subject, queue=queue, cb=on_message))
        return made[0]

    async def flush(self, *, timeout_s: float = 10) -> None:
        """Return when the relay has processed what was sent."""
        await _flush(self._connected, timeout_s)

    async def drain(self, subscription: Subscription) -> None:
        """End a subscription so that no request is lost: those on their way are still answered."""
        try:
            await subscription.drain()  # type: ignore[no-untyped-call]
            await self.flush(timeout_s=1)
            await asyncio.sleep(_GRACE_S)
        except (NatsError, OSError, TimeoutError):
            pass  # without the relay nothing is on its way

    async def _lose(self) -> None:
        self._losses += 1
        self._hears(False)

    async def _find(self) -> None:
        # The handler of nats-py must not wait for the relay itself.
        task = asyncio.get_running_loop().create_task(self._find_in(self._losses))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def _find_in(self, losses: int) -> None:
        while losses == self._losses:
            try:
                await self.flush()
            except (NatsError, OSError, TimeoutError):
                await asyncio.sleep(_CHECK_TIMEOUT_S)  # lost again, or a relay that has stopped for a while
            else:
                return self._hears(True)

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise RelayDownError("the relay is used before it is opened")
        return self._client


async def _flush(client: Client, timeout_s: float) -> None:
    """Return when the relay has processed what was sent.

    nats-py writes a PING at once and all else a moment later, so only the second PING is known to come after it.
    """
    for _ in range(2):
        await client.flush(timeout=timeout_s)  # type: ignore[arg-type]


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
                self._beside_the_loop.submit(connection.close).result() if _is_in_event_loop() else connection.close()

    def _with_connection(self, use: Callable[[_Requests], T]) -> T:
        if not self._url:
            raise RelayDownError("the stack has no relay")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._make_connection()
        try:
            if _is_in_event_loop():
                return self._beside_the_loop.submit(use, connection).result()
            with part("relay"):
                return use(connection)
        finally:
            self._idle.append(connection)
            if self._is_closed:
                self.close()

    @cached_property
    def _beside_the_loop(self) -> ThreadPoolExecutor:
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
        self._used_at_s = _NEVER_S

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
                await _flush(client, timeout_s)
            except Exception as error:
                await self._drop()
                if is_last:
                    raise RelayDownError(f"{self._access.url}: {error!r}") from error
            else:
                self._used_at_s = self._clock.monotonic_s()
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
            self._used_at_s = _NEVER_S  # the relay itself may be dead: force a ping before the next request
            raise SilentHolderError(f"no answer to {subject} in {timeout_s} s") from error
        except Exception as error:
            await self._drop()
            raise RelayDownError(f"{self._access.url}: {error!r}") from error
        self._used_at_s = self._clock.monotonic_s()
        return None if message is None else message.data

    async def _connected(self, within_s: float) -> Client:
        for _ in range(_LOOP_TURNS_TO_NOTICE_CLOSE):
            await asyncio.sleep(0)
        if self._client is not None and self._clock.monotonic_s() - self._used_at_s > _TRUSTED_IDLE_S:
            await self._check(self._client, min(_CHECK_TIMEOUT_S, within_s / 2))
        if self._client is None or not self._client.is_connected:
            await self._drop()
            self._client = await connect(self._access, self._secrets, timeout_s=within_s)
            self._used_at_s = self._clock.monotonic_s()
        return self._client

    async def _check(self, client: Client, timeout_s: float) -> None:
        try:
            await client.flush(timeout=timeout_s)  # type: ignore[arg-type]
        except Exception:
            await self._drop()

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await _hang_up(client)
