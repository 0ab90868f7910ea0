"""Reports of reads in a process that goes on: gathered by key, and sent to the bus in the background once a second.

A read never waits for them. What a dead bus cannot take is dropped and counted: a report only makes a key hot sooner.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.clock import Clock
from burstcache.adapters.event_bus import in_batches, send_batch
from burstcache.core.messages.events import REPORT_EVERY_S, ObjectRequested, RequestsServed, gathered
from burstcache.core.parameters import US_PER_S
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient

    from burstcache.core.gathering import GatherRule

_MAX_WAITING = 10_000
_CLOSE_WITHIN_S = 3.0


class EventBatches:
    """Reports to one bus what S3 and the reader's memory served. Any thread may add to it."""

    def __init__(
        self,
        bus_name: str,
        client: EventBridgeClient,
        clock: Clock,
        *,
        every_s: float = REPORT_EVERY_S,
        rule: GatherRule | None = None,
    ) -> None:
        """Remember where to send.

        Args:
            bus_name: Name of the bus.
            client: May put events there.
            clock: What a failed bus is left alone by.
            every_s: How long reports gather before they are sent, or looked at [s].
            rule: When those are due that are looked at; None: then.
        """
        self._bus_name = bus_name
        self._client = client
        self._breakers = Breakers(clock)
        self._every_s = every_s
        self._rule = rule
        self._waiting: deque[ObjectRequested | RequestsServed] = deque()
        self._starting = threading.Lock()
        self._has_some = threading.Event()
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None
        self.dropped = 0  # reports, or keys with several, that were not sent

    def start(self, event: ObjectRequested | RequestsServed) -> None:
        """Note what S3, or the reader's memory, served; returns at once."""
        if len(self._waiting) >= _MAX_WAITING or self._closing.is_set():
            self.dropped += 1
            return
        self._waiting.append(event)
        if not self._has_some.is_set():
            self._has_some.set()
            self._start_sender()

    def finish(self, report: None) -> None:
        """Do nothing: a read does not wait for its report."""

    def close(self) -> None:
        """Send what is waiting, for a few seconds at most; what is added later is dropped."""
        self._closing.set()
        self._has_some.set()
        with self._starting:
            sender = self._sender
        if sender is not None:
            sender.join(_CLOSE_WITHIN_S)

    def _start_sender(self) -> None:
        with self._starting:
            if self._sender is None:
                self._sender = threading.Thread(target=self._run, name="burstcache-events", daemon=True)
                self._sender.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._has_some.wait()
            waited_s = self._every_s
            while not self._closing.wait(self._every_s) and not self._are_due(waited_s):
                waited_s += self._every_s
            self._has_some.clear()
            self._send_waiting()
        self._send_waiting()  # what came while the last batch was on its way

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
                    self._breakers.succeed(self._bus_name)
                    continue
                except Exception as error:  # whatever it is, the reads went well
                    self._breakers.fail(self._bus_name)
                    logger().warning("reads are not reported, no key gets hot", reason=repr(error), bus=self._bus_name)
            self.dropped += sum(len(event["keys"]) for event in batch)

    def _take(self) -> Iterator[ObjectRequested | RequestsServed]:
        while self._waiting:
            yield self._waiting.popleft()
