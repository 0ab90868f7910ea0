"""Request events: a bus that fails or hangs costs one wait, not one per read."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from burstcache.adapters.breaker import OPEN_S
from burstcache.adapters.event_publisher import EventPublisher
from support.clock import ManualClock
from support.waiting import LIMIT_S

EVENT: Any = {"key": "a", "at_us": 1, "request_id": "request-1", "size_bytes": 4, "etag": '"e"'}
REFUSAL = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}


class Bus:
    """Takes events, refuses them, or hangs until the test releases it."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.answer, self.sent, self.go_on = answer, 0, threading.Event()

    def put_events(self, **_: Any) -> dict[str, Any]:
        self.sent += 1
        if self.answer is None:
            self.go_on.wait(LIMIT_S)
        return self.answer or {}


@pytest.mark.parametrize(
    "answer",
    [{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}, None],
    ids=["refuses", "hangs"],
)
def test_a_bus_that_fails_is_left_alone_until_its_breaker_closes(answer: dict[str, Any] | None) -> None:
    bus, clock = Bus(answer), ManualClock()
    publisher = EventPublisher("bus", bus, clock, wait_s=0.01 if answer is None else LIMIT_S)  # type: ignore[arg-type]

    for _ in range(10):
        publisher.finish(publisher.start(EVENT))
    sent = bus.sent
    clock.now_s = OPEN_S
    again = publisher.start(EVENT)
    bus.go_on.set()
    publisher.finish(again)

    assert (sent, bus.sent) == (1, 2)


def test_a_bus_that_takes_events_gets_each() -> None:
    bus = Bus({"FailedEntryCount": 0})
    publisher = EventPublisher("bus", bus, ManualClock(), wait_s=LIMIT_S)  # type: ignore[arg-type]

    for _ in range(3):
        publisher.finish(publisher.start(EVENT))

    assert bus.sent == 3
