"""Reports of reads in a process that goes on: gathered, and sent to the bus in the background once a second.

A read never waits for them. What a dead bus cannot take is dropped and counted: a report only makes a key hot sooner.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock
from burstcache.core.errors import ServiceError
from burstcache.core.messages import OBJECT_REQUESTED, PROXY, REQUESTS_SERVED, ObjectRequested, RequestsServed
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient
    from types_boto3_events.type_defs import PutEventsRequestEntryTypeDef

_EVERY_S = 1.0
_MAX_WAITING = 10_000
_MAX_ENTRIES = 10  # of one PutEvents
_MAX_BATCH_BYTES = 240_000  # 256 KB less the names around each detail
_CLOSE_WITHIN_S = 3.0


class EventBatches:
    """Sends events to one bus, many at a time. Any thread may add to it."""

    def __init__(self, bus_name: str, client: EventBridgeClient, clock: Clock, *, every_s: float = _EVERY_S) -> None:
        """Remember where to send.

        Args:
            bus_name: Name of the bus.
            client: May put events there.
            clock: What a failed bus is left alone by.
            every_s: How long events gather before they are sent [s].
        """
        self._bus_name = bus_name
        self._client = client
        self._breakers = Breakers(clock)
        self._every_s = every_s
        self._waiting: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._starting = threading.Lock()
        self._has_some = threading.Event()
        self._closing = threading.Event()
        self._sender: threading.Thread | None = None
        self.dropped = 0  # events that were not sent

    def start(self, event: ObjectRequested | RequestsServed) -> None:
        """Note what S3, or the reader's memory, served."""
        self.add(REQUESTS_SERVED if "keys" in event else OBJECT_REQUESTED, event)

    def finish(self, report: None) -> None:
        """Do nothing: a read does not wait for its report."""

    def add(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Note an event; returns at once."""
        if len(self._waiting) >= _MAX_WAITING or self._closing.is_set():
            self.dropped += 1
            return
        self._waiting.append((detail_type, detail))
        if not self._has_some.is_set():
            self._has_some.set()
            self._start_sender()

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
            self._closing.wait(self._every_s)
            self._has_some.clear()
            self._send_waiting()

    def _send_waiting(self) -> None:
        for batch in self._batches():
            if self._breakers.is_open(self._bus_name):
                self.dropped += len(batch)
                continue
            try:
                self._send(batch)
            except Exception as error:  # whatever it is, the reads went well
                self._breakers.fail(self._bus_name)
                self.dropped += len(batch)
                logger().warning("reads are not reported, no key gets hot", reason=repr(error), bus=self._bus_name)

    def _batches(self) -> Iterator[list[PutEventsRequestEntryTypeDef]]:
        batch: list[PutEventsRequestEntryTypeDef] = []
        size_bytes = 0
        while self._waiting:
            detail_type, detail = self._waiting.popleft()
            text = json.dumps(detail, separators=(",", ":"))
            if batch and (len(batch) == _MAX_ENTRIES or size_bytes + len(text) > _MAX_BATCH_BYTES):
                yield batch
                batch, size_bytes = [], 0
            batch.append({"EventBusName": self._bus_name, "Source": PROXY, "DetailType": detail_type, "Detail": text})
            size_bytes += len(text)
        if batch:
            yield batch

    def _send(self, batch: list[PutEventsRequestEntryTypeDef]) -> None:
        answer = ask(self._client.put_events, Entries=batch)
        if refused := [entry for entry in answer["Entries"] if "ErrorCode" in entry]:
            code = refused[0]["ErrorCode"]
            raise ServiceError(f"the bus refused {len(refused)} of {len(batch)} events: {code}", code=code)
