"""The tools of a life in a cache function: its task, its connections and its dependencies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.control.meter import Meter
from burstcache.core.messages.events import RequestsServed
from burstcache.core.policies import LivePolicy

End = Literal["idle", "gone", "stopped", "handed_over", "superseded", "failed"]

Respond = Callable[[bytes], Awaitable[None]]


class Relay(Protocol):
    """A cache function's view of the relay. A subscription is the value that `listen` returns."""

    async def open(self) -> None:
        """Connect, or raise RelayDownError."""

    async def close(self) -> None:
        """Close the connection."""

    def on_connection_change(self, hears: Callable[[bool], None]) -> None:
        """Call `hears` with False when messages may get lost, and with True when they arrive again."""

    async def listen(
        self,
        subject: str,
        *,
        queue: str,
        answer: Callable[[bytes, Respond, float], Awaitable[None]],
        after: Any = None,
        busy: bytes | None = None,
    ) -> Any:
        """Subscribe to a subject, and return the subscription.

        Args:
            subject: The subject.
            queue: The queue group, in which exactly one listener gets each message. If empty, every listener gets it.
            answer: The handler. Its arguments are the message, a function that responds, and the time in the queue [s].
            after: A subscription with precedence: its earlier messages are answered first. Its `answer` must not wait.
            busy: The immediate answer to the oldest messages when too many are queued. If None, they stay queued.
        """

    async def flush(self) -> None:
        """Wait until the relay has processed all sent messages."""

    async def drain(self, subscription: Any) -> None:
        """Unsubscribe without losing a request."""


class EventReports(Protocol):
    """A publisher of reports on served requests."""

    def start(self, event: RequestsServed) -> Any:
        """Start sending a report, and return a handle for `finish`."""

    def finish(self, report: Any) -> None:
        """Wait until a report is sent. Log failures instead of raising them."""


@dataclass(frozen=True, slots=True)
class CacheTask:
    """The task that a state passes to the cache function."""

    key: str
    hash: str
    epoch: int
    attempt: int  # number of earlier starts; a later attempt takes the key over
    token: str  # the state's task token; empty if the state is over and the key waits for Redis
    holder: str  # ID of this invocation


@dataclass(frozen=True, slots=True)
class CacheTools:
    """The dependencies of a life."""

    keys: KeyTable
    nodes: NodeTable
    executions: Executions
    objects: ObjectStore
    pauses: PauseSwitch
    max_object_bytes: int
    policy: LivePolicy
    clock: Clock
    meter: Meter
    reports: EventReports | None = None  # publishes served requests, which count for the key's node
