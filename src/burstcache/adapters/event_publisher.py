"""Request events: what S3 served is reported on the bus, alongside the read."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

from burstcache.adapters.breaker import Breakers
from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock
from burstcache.core.errors import ServiceError
from burstcache.core.messages import OBJECT_REQUESTED, PROXY, REQUESTS_SERVED, ObjectRequested, RequestsServed
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient

_WAIT_S = 1.0
_WORKERS = 2  # one report at a time, and one that a frozen environment left behind


class EventPublisher:
    """Sends events to one bus; a bus that fails costs a read a second at most, and then nothing for a while."""

    def __init__(self, bus_name: str, client: EventBridgeClient, clock: Clock, *, wait_s: float = _WAIT_S) -> None:
        self._bus_name = bus_name
        self._client = client
        self._breakers = Breakers(clock)
        self._wait_s = wait_s  # how long a read waits for its report
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="event-publisher")

    def start(self, event: ObjectRequested | RequestsServed) -> Future[None] | None:
        """Begin to send an event; None if the bus failed a moment ago."""
        return None if self._breakers.is_open(self._bus_name) else self._workers.submit(self._send, event)

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

    def _send(self, event: ObjectRequested | RequestsServed) -> None:
        answer = ask(
            self._client.put_events,
            Entries=[
                {
                    "EventBusName": self._bus_name,
                    "Source": PROXY,
                    "DetailType": REQUESTS_SERVED if "keys" in event else OBJECT_REQUESTED,
                    "Detail": json.dumps(event),
                }
            ],
        )
        if answer.get("FailedEntryCount"):
            code = str(answer["Entries"][0].get("ErrorCode"))
            raise ServiceError(f"the bus refused the event: {code}", code=code)

    def _failed(self, reason: str) -> None:
        self._breakers.fail(self._bus_name)
        logger().warning("request event not sent", reason=reason, bus=self._bus_name)
