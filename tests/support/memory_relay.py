"""The relay in memory, without a server: NATS's subjects, queue groups and requests without a responder.

For worlds on a virtual clock, which cannot see messages in flight in a socket. `test_relay_stand_in` compares it with
a real NATS server.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from burstcache.adapters.relay_listener import MOST_WAITING
from burstcache.core.errors import RelayDownError, SilentHolderError
from support.virtual_time import VirtualClock

Respond = Callable[[bytes], Awaitable[None]]
Answer = Callable[[bytes, Respond, float], Awaitable[None]]


@dataclass(eq=False, slots=True)
class Subscription:
    """Subscription of one listener to a subject. It answers one message after another."""

    subject: str
    queue: str
    answer: Answer
    loop: asyncio.AbstractEventLoop
    busy: bytes | None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    under_way: set[asyncio.Task[None]] = field(default_factory=set)

    def deliver(self, payload: bytes, answered: Future[bytes]) -> None:
        """Start answering a message. Call it on the listener's loop."""
        task = self.loop.create_task(self._answer(payload, answered, self.loop.time()))
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def _answer(self, payload: bytes, answered: Future[bytes], came_s: float) -> None:
        async def respond(data: bytes) -> None:
            if not answered.done():
                answered.set_result(data)

        async with self.turn:
            if self.busy is not None and len(self.under_way) > 1 + MOST_WAITING:
                return await respond(self.busy)
            await self.answer(payload, respond, self.loop.time() - came_s)


class MemoryRelay:
    """Relay of one world."""

    def __init__(self, clock: VirtualClock) -> None:
        self.is_down = False
        self.takes_to_open_s = 0.0
        self.connections = 0  # of listeners
        self._clock = clock
        self._subscriptions: dict[str, list[Subscription]] = defaultdict(list)
        self._turns = itertools.count()
        self._lock = threading.Lock()

    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Send a request and return its first answer, or None if nobody listens on `subject`.

        Raises:
            SilentHolderError: The listener did not answer in time.
            RelayDownError: The relay is down.
        """
        self.see_that_it_is_up()
        answered: Future[bytes] = Future()
        with self._lock:
            listeners = self._subscriptions[subject]
            if not listeners:
                return None
            turn = next(self._turns)
            groups: dict[object, list[Subscription]] = defaultdict(list)
            for listener in listeners:
                groups[listener.queue or listener].append(listener)
            for group in groups.values():
                one = group[turn % len(group)]
                one.loop.call_soon_threadsafe(one.deliver, payload, answered)
        try:
            return self._clock.wait_for(answered, timeout_s)
        except TimeoutError:
            raise SilentHolderError(f"no answer to {subject} in {timeout_s} s") from None

    def send_order(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        """Send a message to all listeners on `subject`, ahead of all later messages."""
        self.see_that_it_is_up()
        with self._lock:
            for listener in self._subscriptions[subject]:
                listener.loop.call_soon_threadsafe(listener.deliver, payload, Future())

    def close(self) -> None:
        """Disconnect, as a client does. Nothing to do here."""

    def listener(self) -> MemoryListener:
        """Return a cache function's connection."""
        return MemoryListener(self)

    def add(self, subscription: Subscription) -> None:
        """Start delivering messages to a listener."""
        with self._lock:
            self._subscriptions[subscription.subject].append(subscription)

    def remove(self, subscription: Subscription) -> None:
        """Stop delivering messages to a listener. Idempotent."""
        with self._lock:
            listeners = self._subscriptions[subscription.subject]
            if subscription in listeners:
                listeners.remove(subscription)

    def see_that_it_is_up(self) -> None:
        """Raise RelayDownError if the relay is down."""
        if self.is_down:
            raise RelayDownError("the relay is down")


class MemoryListener:
    """Connection of a cache function."""

    def __init__(self, relay: MemoryRelay) -> None:
        self._relay, self._is_open = relay, False
        self._subscriptions: list[Subscription] = []

    async def open(self) -> None:
        """Connect, or raise RelayDownError."""
        await asyncio.sleep(self._relay.takes_to_open_s)
        self._relay.see_that_it_is_up()
        self._relay.connections += 1
        self._is_open = True

    async def close(self) -> None:
        """Close the connection and its subscriptions at once."""
        self._relay.connections -= self._is_open
        self._is_open = False
        for subscription in self._subscriptions:
            self._relay.remove(subscription)

    def on_connection_change(self, hears: Callable[[bool], None]) -> None:
        """Store the callback. The connection never changes, so nothing calls it."""
        self.hears = hears

    async def listen(
        self,
        subject: str,
        *,
        queue: str,
        answer: Answer,
        after: Subscription | None = None,
        busy: bytes | None = None,
    ) -> Subscription:
        """Answer messages on a subject. A message goes to one listener per queue group and to all without a group.

        Earlier messages of the subscription `after` are answered first: a loop handles messages in order of arrival.
        """
        subscription = Subscription(subject, queue, answer, asyncio.get_running_loop(), busy)
        self._subscriptions.append(subscription)
        self._relay.add(subscription)
        return subscription

    async def flush(self) -> None:
        """Return at once: everything sent has been processed."""

    async def drain(self, subscription: Subscription) -> None:
        """End a subscription after answering the messages in flight."""
        self._relay.remove(subscription)
        await asyncio.sleep(0)  # messages delivered before the removal have started by then
        await asyncio.gather(*subscription.under_way, return_exceptions=True)
