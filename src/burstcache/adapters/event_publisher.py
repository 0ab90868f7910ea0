"""Event publisher: reports of reads served by S3, sent to the bus in parallel with the same or a later read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

from burstcache.adapters.circuit_breaker import CircuitBreakers
from burstcache.adapters.clock import Clock, instant, seconds_since
from burstcache.adapters.event_bus import in_batches, send_batch
from burstcache.core.messages.events import ObjectRequested, RequestsServed, gathered
from burstcache.core.parameters import US_PER_S
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient

    from burstcache.core.batching import BatchRule

_WAIT_S = 1.0
_MOST_WAITING = 1_000  # pending reports. With short, distinct keys they fill all ten events of one call
_WORKERS = 2  # one current report, and one left over from before the environment was frozen


class EventPublisher:
    """A publisher for one bus. A failing bus delays one read by at most a second, before a circuit breaker opens."""

    def __init__(self, bus_name: str, client: EventBridgeClient, clock: Clock, *, wait_s: float = _WAIT_S) -> None:
        self._bus_name = bus_name
        self._client = client
        self._breakers = CircuitBreakers(clock)
        self._wait_s = wait_s  # longest wait for a read's report
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="event-publisher")

    def start(self, *events: ObjectRequested | RequestsServed) -> Future[None] | None:
        """Start sending events. Return None if the bus's circuit breaker is open, or no thread can be created."""
        if self._breakers.is_open(self._bus_name):
            return None
        try:
            return self._workers.submit(self._send, events)
        except RuntimeError as error:
            self._record_failure(repr(error))
            return None

    def finish(self, report: Future[None] | None) -> None:
        """Wait for a report, by default for at most a second. Failures are logged, never raised."""
        if report is None:
            return
        try:
            report.result(self._wait_s)
        except FutureTimeoutError:
            self._record_failure("no answer yet")
        except Exception as error:
            self._record_failure(repr(error))

    def close(self) -> None:
        """Wait for pending reports."""
        self._workers.shutdown()

    def _send(self, events: Sequence[ObjectRequested | RequestsServed]) -> None:
        for batch in in_batches(events):
            send_batch(self._bus_name, self._client, batch)
        self._breakers.record_success(self._bus_name)

    def _record_failure(self, reason: str) -> None:
        self._breakers.record_failure(self._bus_name)
        logger().warning("request event not sent", reason=reason, bus=self._bus_name)


class BatchedReports:
    """Batches of reports. The first read that finds a batch due sends it in parallel with its own work.

    Use it in Lambda functions, which are frozen between invocations and cannot send from a background thread. Reports
    still pending when an environment is reclaimed are lost, which only makes keys hot later.
    """

    def __init__(self, publisher: EventPublisher, clock: Clock, rule: BatchRule) -> None:
        """Start with an empty batch.

        Args:
            publisher: Sends due batches.
            clock: Source of time for the age of reports.
            rule: Decides when a batch is due.
        """
        self._publisher = publisher
        self._clock = clock
        self._rule = rule
        self._waiting: list[ObjectRequested | RequestsServed] = []
        self._weight = 0  # total weight of the batch
        self._since = instant(clock)  # time of the batch's first report
        self._lock = threading.Lock()

    def start(self, event: ObjectRequested | RequestsServed) -> Future[None] | None:
        """Add a report to the batch, and start sending the batch if it is due."""
        with self._lock:
            if not self._waiting:
                self._since, self._weight = instant(self._clock), 0
            self._waiting.append(event)
            self._weight += self._rule.weight_of(event)
            age_us = int(seconds_since(self._clock, self._since) * US_PER_S)
            is_due = self._rule.is_due(age_us=age_us, weight=self._weight)
            if not (is_due or len(self._waiting) >= _MOST_WAITING):
                return None
        return self._send_waiting()

    def finish(self, report: Future[None] | None) -> None:
        """Wait for a batch, like the publisher's `finish`."""
        self._publisher.finish(report)

    def close(self) -> None:
        """Send the pending batch and close the publisher."""
        self.finish(self._send_waiting())
        self._publisher.close()

    def _send_waiting(self) -> Future[None] | None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        events = [*gathered(waiting)]
        return self._publisher.start(*events) if events else None
