"""Request events: what S3 served is reported on the bus, alongside the read or alongside a later one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.adapters.event_bus import in_batches, send_batch
from burstcache.core.messages.events import ObjectRequested, RequestsServed, gathered
from burstcache.core.parameters import US_PER_S
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient

    from burstcache.core.gathering import GatherRule

_WAIT_S = 1.0
_MOST_GATHERED = 1_000  # reports; of as many keys with short names, they are the ten events of one call
_WORKERS = 2  # one report at a time, and one that a frozen environment left behind


class EventPublisher:
    """Sends events to one bus; a bus that fails costs a read a second at most, and then nothing for a while."""

    def __init__(self, bus_name: str, client: EventBridgeClient, clock: Clock, *, wait_s: float = _WAIT_S) -> None:
        self._bus_name = bus_name
        self._client = client
        self._breakers = Breakers(clock)
        self._wait_s = wait_s  # how long a read waits for its report
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="event-publisher")

    def start(self, *events: ObjectRequested | RequestsServed) -> Future[None] | None:
        """Begin to send events, all of them or, if the bus failed a moment ago, none: then return None."""
        return None if self._breakers.is_open(self._bus_name) else self._workers.submit(self._send, events)

    def finish(self, report: Future[None] | None) -> None:
        """Wait for a report, by default for a second at most; a failure is logged, never raised."""
        if report is None:
            return
        try:
            report.result(self._wait_s)
        except FutureTimeoutError:
            self._failed("no answer yet")
        except Exception as error:
            self._failed(repr(error))

    def close(self) -> None:
        """Wait for the reports under way."""
        self._workers.shutdown()

    def _send(self, events: Sequence[ObjectRequested | RequestsServed]) -> None:
        for batch in in_batches(events):
            send_batch(self._bus_name, self._client, batch)
        self._breakers.succeed(self._bus_name)

    def _failed(self, reason: str) -> None:
        self._breakers.fail(self._bus_name)
        logger().warning("request event not sent", reason=reason, bus=self._bus_name)


class GatheredReports:
    """Reports what gathers over some seconds, alongside the read that finds it due.

    For a function that is frozen after its answer: no thread of it can wait meanwhile. What an environment has not sent
    when it is reclaimed is lost, so a key gets hot later, nothing else.
    """

    def __init__(self, publisher: EventPublisher, clock: Clock, rule: GatherRule) -> None:
        """Have nothing to send yet.

        Args:
            publisher: Sends what is due.
            clock: What reports age by.
            rule: When they are due.
        """
        self._publisher = publisher
        self._clock = clock
        self._rule = rule
        self._waiting: list[ObjectRequested | RequestsServed] = []
        self._weight = 0  # of what waits
        self._since = instant(clock)  # of the first that waits
        self._lock = threading.Lock()

    def start(self, event: ObjectRequested | RequestsServed) -> Future[None] | None:
        """Note a report, and begin to send those that wait if it is time."""
        with self._lock:
            if not self._waiting:
                self._since, self._weight = instant(self._clock), 0
            self._waiting.append(event)
            self._weight += self._rule.weight_of(event)
            age_us = int(seconds_since(self._clock, self._since) * US_PER_S)
            is_due = self._rule.is_due(age_us=age_us, weight=self._weight)
            if not (is_due or len(self._waiting) >= _MOST_GATHERED):
                return None
        return self._send_waiting()

    def finish(self, report: Future[None] | None) -> None:
        """Wait for what a read has begun to send, as the publisher does."""
        self._publisher.finish(report)

    def close(self) -> None:
        """Send what waits."""
        self.finish(self._send_waiting())
        self._publisher.close()

    def _send_waiting(self) -> Future[None] | None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        events = [*gathered(waiting)]
        return self._publisher.start(*events) if events else None
