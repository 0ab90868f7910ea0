"""What the life of a cache function is given: its task, its connections, and what it works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pauses import Pauses
from burstcache.control.meter import Meter
from burstcache.core.messages.events import RequestsServed
from burstcache.core.policies import LivePolicy

End = Literal["idle", "gone", "stopped", "handed_over", "superseded", "failed"]

Respond = Callable[[bytes], Awaitable[None]]


class Relay(Protocol):
    """What the cache function needs of the relay. A subscription is whatever `listen` returns."""

    async def open(self) -> None:
        """Connect, or raise RelayDownError."""

    async def close(self) -> None:
        """Leave the relay."""

    def follow_connection(self, hears: Callable[[bool], None]) -> None:
        """Call `hears` with False when messages may be missed, with True when none is any more, but some may be."""

    async def listen(
        self,
        subject: str,
        *,
        queue: str,
        answer: Callable[[bytes, Respond, float], Awaitable[None]],
        after: Any = None,
        busy: bytes | None = None,
    ) -> Any:
        """Answer messages; of the listeners of one queue group exactly one gets each message, without one all do.

        What came before by the subscription `after`, whose `answer` never waits, is answered first. Where too many
        messages wait, the foremost are answered with `busy` at once, if it is given. `answer` learns how long a message
        has waited for those before it [s].
        """

    async def flush(self) -> None:
        """Return when the relay has processed what was sent."""

    async def drain(self, subscription: Any) -> None:
        """End a subscription so that no request is lost."""


class Reports(Protocol):
    """Where served requests are reported."""

    def start(self, event: RequestsServed) -> Any:
        """Begin to report, and return what `finish` takes."""

    def finish(self, report: Any) -> None:
        """Return when the report has been sent; a failure is logged, never raised."""


@dataclass(frozen=True, slots=True)
class CacheTask:
    """What the state passes to the cache function."""

    key: str
    hash: str
    epoch: int
    attempt: int  # how often it was started before: a later attempt takes the key over
    token: str  # of the state; empty: that is over, and Redis is awaited
    holder: str  # this invocation


@dataclass(frozen=True, slots=True)
class CacheTools:
    """What a life works with."""

    keys: KeyTable
    nodes: NodeTable
    executions: Executions
    objects: ObjectStore
    pauses: Pauses
    max_object_bytes: int
    policy: LivePolicy
    clock: Clock
    meter: Meter
    reports: Reports | None = None  # where served requests are reported that count for the key's node
