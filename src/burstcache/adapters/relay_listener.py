"""The relay's client of a cache function, which listens and answers."""

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
from burstcache.traces import HEADER, answering

Respond = Callable[[bytes], Awaitable[None]]
Answer = Callable[[bytes, Respond, float], Awaitable[None]]  # the last: how long the message has waited here [s]

_CONNECT_TIMEOUT_S = 5  # only its state waits for a life that starts, and many may connect at once
MOST_WAITING = 64  # as many readers of one object as a busy stack has at once; each waits for those before it
_GRACE_S = 0.05  # what is still on its way when a subscription ends; by measurement this loses nothing
_FAILURES = (NatsError, OSError, TimeoutError)
_DRAIN_S = 3.0  # a life ends 10 s before its invocation


def _ignored(hears: bool) -> None:
    """Do nothing about a lost connection."""


@dataclass(slots=True, eq=False)
class Listening:
    """A subscription, and its messages, which are answered one after the other."""

    subscription: Subscription
    waiting: asyncio.Queue[tuple[Msg, float]]  # each with when it came, by the loop's time [s]
    answering: asyncio.Task[None]

    @property
    def pending_msgs(self) -> int:
        """How many messages wait for their turn."""
        return self.subscription.pending_msgs + self.waiting.qsize()

    async def drain(self) -> None:
        """Return when all messages are answered that came before the end of the subscription, which is now."""
        await self.subscription.drain()  # type: ignore[no-untyped-call]
        await self.waiting.join()
        self.answering.cancel()


class RelayListener:
    """The connection of one cache function's environment; it outlives the environment's lives."""

    def __init__(self, access: RelayAccess, secrets: Secrets) -> None:
        self._access = access
        self._secrets = secrets
        self._client: Client | None = None
        self._hears: Callable[[bool], None] = _ignored
        self._losses = 0
        self._confirming: set[asyncio.Task[None]] = set()
        self._listening: set[Listening] = set()

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
        for listening in self._listening:
            listening.answering.cancel()
        self._listening.clear()
        if client is not None:
            await hang_up(client)

    async def listen(
        self,
        subject: str,
        *,
        queue: str,
        answer: Answer,
        after: Listening | None = None,
        busy: bytes | None = None,
    ) -> Listening:
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

        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[Msg, float]]()

        async def take(message: Msg) -> None:  # nats-py does not say how long a message has waited for its handler
            waiting.put_nowait((message, loop.time()))

        async def answer_one(message: Msg, came_s: float) -> None:
            while after is not None and after.pending_msgs:
                await asyncio.sleep(0)
            if busy is not None and waiting.qsize() > MOST_WAITING:
                return await message.respond(busy)
            caller = (message.headers or {}).get(HEADER, "")
            with answering(caller, key_hash=hash_of(subject)):
                await answer(message.data, message.respond, loop.time() - came_s)

        async def answer_all() -> None:
            while True:
                message, came_s = await waiting.get()
                try:
                    await answer_one(message, came_s)
                except Exception as error:  # the next one may be answered
                    logger().warning("message not answered", subject=subject, reason=repr(error))
                finally:
                    waiting.task_done()

        subscription = await self._connected.subscribe(subject, queue=queue, cb=take)
        listening = Listening(subscription, waiting, loop.create_task(answer_all()))
        self._listening.add(listening)
        return listening

    async def flush(self, *, timeout_s: float = 10) -> None:
        """Return when the relay has processed what was sent; raise RelayDownError if it does not answer."""
        try:
            await flush(self._connected, timeout_s)
        except _FAILURES as error:
            raise RelayDownError(f"{self._access.url}: {error!r}") from error

    async def drain(self, listening: Listening) -> None:
        """End a subscription so that no request is lost: those on their way are still answered.

        One whose end the relay does not confirm ends with the connection: when that is back, nats-py would make it
        anew, and it would answer for a life that is over and hears no orders.
        """
        try:
            await asyncio.wait_for(listening.drain(), _DRAIN_S)
            self._listening.discard(listening)
            await self.flush(timeout_s=1)
            await asyncio.sleep(_GRACE_S)
        except (*_FAILURES, RelayDownError):
            await self.close()  # without the relay nothing is on its way

    async def _lose(self) -> None:
        self._losses += 1
        self._hears(False)

    async def _find(self) -> None:
        # The handler of nats-py must not wait for the relay itself.
        task = asyncio.get_running_loop().create_task(self._find_in(self._losses))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def _find_in(self, losses: int) -> None:
        while self._client is not None and losses == self._losses:
            try:
                await self.flush()
            except RelayDownError:
                await asyncio.sleep(CHECK_TIMEOUT_S)  # lost again, or a relay that has stopped for a while
            else:
                return self._hears(True)

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise RelayDownError("the relay is used before it is opened")
        return self._client
