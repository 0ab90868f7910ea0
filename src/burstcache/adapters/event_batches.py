"""Event batches: reports of reads in a long-running process, grouped by key and sent in the background once a second.

Reads never wait for reports. Reports that cannot be sent are dropped and counted. A lost report only makes a key hot
later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from burstcache.adapters.circuit_breaker import CircuitBreakers
from burstcache.adapters.clock import Clock
from burstcache.adapters.event_bus import in_batches, send_batch
from burstcache.core.messages.events import REPORT_EVERY_S, ObjectRequested, RequestsServed, gathered
from burstcache.core.parameters import US_PER_S
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient

    from burstcache.core.batching import BatchRule

_MAX_WAITING = 10_000
_CLOSE_WITHIN_S = 3.0


class EventBatches:
    """Reports of reads served by S3 or the reader's local cache, sent to one bus. Thread-safe."""

    def __init__(
        self,
        bus_name: str,
        client: EventBridgeClient,
        clock: Clock,
        *,
        every_s: float = REPORT_EVERY_S,
        rule: BatchRule | None = None,
    ) -> None:
        """Initialise without a sender thread, which the first report starts.

        Args:
            bus_name: Name of the bus.
            client: EventBridge client with permission to put events there.
            clock: Source of time for the bus's circuit breaker.
            every_s: Interval at which batches are sent, or checked against the rule [s].
            rule: Decides when a batch is due. None: at each interval.
        """
        self._bus_name = bus_name
        self._client = client
        self._breakers = CircuitBreakers(clock)
        self._every_s = every_s
        self._rule = rule
        self._waiting: deque[ObjectRequested | RequestsServed] = deque()
        self._starting = threading.Lock()
        self._has_some = threading.Event()
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None
        self.dropped = 0  # dropped reports, counted once per key and event

    def start(self, event: ObjectRequested | RequestsServed) -> None:
        """Add a report to the batch without blocking."""
        if len(self._waiting) >= _MAX_WAITING or self._closing.is_set():
            self.dropped += 1
            return
        self._waiting.append(event)
        if not self._has_some.is_set():
            self._has_some.set()
            if not self._has_sender():
                self._has_some.clear()  # the next report tries again

    def finish(self, report: None) -> None:
        """Return immediately, as a read does not wait for its report."""

    def close(self) -> None:
        """Send pending reports, for at most 3 s. Later reports are dropped."""
        self._closing.set()
        self._has_some.set()
        with self._starting:
            sender = self._sender
        if sender is not None:
            sender.join(_CLOSE_WITHIN_S)

    def _has_sender(self) -> bool:
        """Start the sender if it does not run yet. Return False if no thread can be created."""
        with self._starting:
            if self._sender is None:
                sender = threading.Thread(target=self._run, name="burstcache-events", daemon=True)
                try:
                    sender.start()
                except RuntimeError as error:  # the reads have succeeded
                    logger().warning("reads are not reported yet", reason=repr(error), bus=self._bus_name)
                    return False
                self._sender = sender
        return True

    def _run(self) -> None:
        while not self._closing.is_set():
            self._has_some.wait()
            waited_s = self._every_s
            while not self._closing.wait(self._every_s) and not self._are_due(waited_s):
                waited_s += self._every_s
            self._has_some.clear()
            self._send_waiting()
        self._send_waiting()  # reports added while the last batch was being sent

    def _are_due(self, waited_s: float) -> bool:
        if self._rule is None:
            return True
        weight = sum(map(self._rule.weight_of, self._waiting.copy()))
        return self._rule.is_due(age_us=round(waited_s * US_PER_S), weight=weight)

    def _send_waiting(self) -> None:
        for batch in in_batches([*gathered(self._take())]):
            if not self._breakers.is_open(self._bus_name):
                try:
                    send_batch(self._bus_name, self._client, batch)
                    self._breakers.record_success(self._bus_name)
                    continue
                except Exception as error:  # any failure, since the reads have succeeded
                    self._breakers.record_failure(self._bus_name)
                    logger().warning("reads are not reported, no key gets hot", reason=repr(error), bus=self._bus_name)
            self.dropped += sum(len(event["keys"]) for event in batch)

    def _take(self) -> Iterator[ObjectRequested | RequestsServed]:
        while self._waiting:
            yield self._waiting.popleft()
