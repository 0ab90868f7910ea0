"""Relay listener: a cache function's connection, which subscribes to requests and responds to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from burstcache.access import RelayAccess
from burstcache.adapters.relay import CHECK_TIMEOUT_S, connect, flush, hang_up
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import RelayDownError, ServiceError
from burstcache.core.messages.relay import hash_of
from burstcache.logs import logger
from burstcache.traces import HEADER, continue_trace

Respond = Callable[[bytes], Awaitable[None]]
Answer = Callable[[bytes, Respond, float], Awaitable[None]]  # payload, respond, and time the message has waited [s]

_CONNECT_TIMEOUT_S = 5  # generous, since only a starting life waits, and many lives may start at the same time
MOST_WAITING = 64  # concurrent readers of one object in a busy stack, served in order
_GRACE_S = 0.05  # grace period for messages in flight when a subscription ends. None were lost in measurements
_FAILURES = (NatsError, OSError, TimeoutError)
_DRAIN_S = 3.0  # a life ends 10 s before its invocation


def _ignore(is_connected: bool) -> None:
    """Ignore a connection change."""


@dataclass(slots=True, eq=False)
class RelaySubscription:
    """A subscription and its queue of messages, which a single task processes in order."""

    subscription: Subscription
    waiting: asyncio.Queue[tuple[Msg, float]]  # messages with their arrival times by the loop's clock [s]
    answering: asyncio.Task[None]

    @property
    def pending_msgs(self) -> int:
        """Number of queued messages."""
        return self.subscription.pending_msgs + self.waiting.qsize()

    async def drain(self) -> None:
        """Unsubscribe, and return once all messages received so far have been processed."""
        await self.subscription.drain()  # type: ignore[no-untyped-call]
        await self.waiting.join()
        self.answering.cancel()


class RelayListener:
    """The relay connection of a cache function's environment, reused across lives."""

    def __init__(self, access: RelayAccess, secrets: Secrets) -> None:
        self._access = access
        self._secrets = secrets
        self._client: Client | None = None
        self._on_change: Callable[[bool], None] = _ignore
        self._losses = 0
        self._confirming: set[asyncio.Task[None]] = set()
        self._subscriptions: set[RelaySubscription] = set()

    def on_connection_change(self, on_change: Callable[[bool], None]) -> None:
        """Register a callback for periods in which messages may have been missed.

        Args:
            on_change: Called with False when the connection is lost, and with True when it is restored and the relay
                has confirmed all subscriptions.
        """
        self._on_change = on_change

    async def open(self) -> None:
        """Connect, or check the previous life's connection, which may have died while the environment was frozen.

        Raises:
            RelayDownError: As for `connect`.
            ServiceError: Systems Manager does not return the password.
        """
        if self._client is not None:
            try:
                await self.flush(timeout_s=CHECK_TIMEOUT_S)
                return
            except Exception:
                await self.close()
        try:
            self._client = await connect(
                self._access,
                self._secrets,
                timeout_s=_CONNECT_TIMEOUT_S,
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                disconnected_cb=self._on_disconnect,
                reconnected_cb=self._on_reconnect,
            )
        except RelayDownError as error:
            if isinstance(error.__cause__, ServiceError):
                raise error.__cause__ from None  # the relay is not at fault
            raise

    async def close(self) -> None:
        """Close the connection and all subscriptions."""
        client, self._client = self._client, None
        for subscription in self._subscriptions:
            subscription.answering.cancel()
        self._subscriptions.clear()
        if client is not None:
            await hang_up(client)

    async def listen(
        self,
        subject: str,
        *,
        queue: str,
        answer: Answer,
        after: RelaySubscription | None = None,
        busy: bytes | None = None,
    ) -> RelaySubscription:
        """Subscribe to `subject` and respond to its messages.

        The relay delivers each message to exactly one listener in a queue group. Without a group (an empty string), all
        listeners receive each message, and the first response wins.

        Args:
            subject: Subject of the messages.
            queue: Queue group, or empty.
            answer: Handles one message.
            after: A subscription with an `answer` that never blocks. Its earlier messages are handled first. The relay
                delivers in order, but nats-py handles each subscription in its own task.
            busy: The response (backpressure) to a message while more than `MOST_WAITING` are queued behind it. The
                sender then falls back. None: all messages are queued.
        """

        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[Msg, float]]()

        async def enqueue(message: Msg) -> None:  # with its arrival time, which nats-py does not record
            waiting.put_nowait((message, loop.time()))

        async def answer_one(message: Msg, arrived_s: float) -> None:
            while after is not None and after.pending_msgs:
                await asyncio.sleep(0)
            if busy is not None and waiting.qsize() > MOST_WAITING:
                return await message.respond(busy)
            caller = (message.headers or {}).get(HEADER, "")
            with continue_trace(caller, key_hash=hash_of(subject)):
                await answer(message.data, message.respond, loop.time() - arrived_s)

        async def answer_all() -> None:
            while True:
                message, arrived_s = await waiting.get()
                try:
                    await answer_one(message, arrived_s)
                except Exception as error:  # one failure must not stop the subscription
                    logger().warning("message not answered", subject=subject, reason=repr(error))
                finally:
                    waiting.task_done()

        nats_subscription = await self._connected.subscribe(subject, queue=queue, cb=enqueue)
        subscription = RelaySubscription(nats_subscription, waiting, loop.create_task(answer_all()))
        self._subscriptions.add(subscription)
        return subscription

    async def flush(self, *, timeout_s: float = 10) -> None:
        """Return once the relay has processed all messages sent so far. Raise RelayDownError if it times out."""
        try:
            await flush(self._connected, timeout_s)
        except _FAILURES as error:
            raise RelayDownError(f"{self._access.url}: {error!r}") from error

    async def drain(self, subscription: RelaySubscription) -> None:
        """Drain a subscription, so that requests in flight still get a response.

        If the relay does not confirm, close the connection. Otherwise nats-py would resubscribe after a reconnect, and
        the ended life would serve requests without receiving invalidations.
        """
        try:
            await asyncio.wait_for(subscription.drain(), _DRAIN_S)
            self._subscriptions.discard(subscription)
            await self.flush(timeout_s=1)
            await asyncio.sleep(_GRACE_S)
        except (*_FAILURES, RelayDownError):
            await self.close()  # without the relay no message is in flight

    async def _on_disconnect(self) -> None:
        self._losses += 1
        self._on_change(False)

    async def _on_reconnect(self) -> None:
        # nats-py's callback must not wait for the relay itself.
        task = asyncio.get_running_loop().create_task(self._confirm(self._losses))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def _confirm(self, losses: int) -> None:
        while self._client is not None and losses == self._losses:
            try:
                await self.flush()
            except RelayDownError:
                await asyncio.sleep(CHECK_TIMEOUT_S)  # disconnected again, or the relay stalls
            else:
                return self._on_change(True)

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise RelayDownError("the relay is used before it is opened")
        return self._client
