"""Request events: a bus that fails or hangs costs one wait, not one per read or event."""

from __future__ import annotations

import json
import threading
from fractions import Fraction
from typing import Any

import pytest

from burstcache.adapters.circuit_breaker import OPEN_S
from burstcache.adapters.event_publisher import BatchedReports, EventPublisher
from burstcache.core.batching import MAX_BATCH_AGE_US, MIN_BATCH_AGE_US, BatchRule
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO, TierPrices, Worth
from support.clock import ManualClock
from support.waiting import LIMIT_S

EVENT: Any = {"key": "a", "at_us": 1, "request_id": "request-1", "size_bytes": 4, "etag": '"e"'}
REFUSAL = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}


class Bus:
    """Takes events, refuses them, or hangs until the test releases it."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.answer, self.sent, self.go_on = answer, 0, threading.Event()
        self.details: list[Any] = []

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        self.sent += 1
        assert len(Entries) <= 10  # the service's limit
        self.details += [json.loads(entry["Detail"]) for entry in Entries]
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


AT_LEAST_S, AT_MOST_S = MIN_BATCH_AGE_US / US_PER_S, MAX_BATCH_AGE_US / US_PER_S
# Two requests are enough.
RULE = BatchRule(Worth(Fraction(1), TierPrices(Fraction(0), Fraction(0), Fraction(0))), 2 * MICRO)


def test_a_read_goes_on_where_no_thread_can_send_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    publisher = EventPublisher("bus", Bus({}), ManualClock())  # type: ignore[arg-type]
    monkeypatch.setattr(threading.Thread, "start", fail)

    report = publisher.start(EVENT)
    publisher.finish(report)

    assert report is None


def gathered_reports(bus: Bus, clock: ManualClock) -> BatchedReports:
    publisher = EventPublisher("bus", bus, clock, wait_s=LIMIT_S)  # type: ignore[arg-type]
    return BatchedReports(publisher, clock, RULE)


def report(reports: BatchedReports, key: str, number: int) -> None:
    event: Any = {**EVENT, "key": key, "at_us": number}
    reports.finish(reports.start(event))


def test_reports_that_gather_go_out_by_key_with_the_read_that_comes_after_ten_seconds() -> None:
    bus, clock = Bus({"FailedEntryCount": 0}), ManualClock()
    reports = gathered_reports(bus, clock)

    report(reports, "a", 1)
    clock.now_s += AT_LEAST_S - 0.1
    report(reports, "b", 2)
    before = bus.sent
    clock.now_s += 0.1
    report(reports, "a", 3)
    report(reports, "c", 4)

    assert (before, bus.sent) == (0, 1)
    (told,) = bus.details
    assert [(key["key"], key["requests"]) for key in told["keys"]] == [
        ("a", ["1:request-1", "3:request-1"]),
        ("b", ["2:request-1"]),
    ]


def test_what_is_worth_little_gathers_for_minutes() -> None:
    bus, clock = Bus({"FailedEntryCount": 0}), ManualClock()
    reports = gathered_reports(bus, clock)

    report(reports, "a", 1)
    reports.finish(reports.start({"keys": []}))
    clock.now_s += AT_MOST_S - 1
    reports.finish(reports.start({"keys": []}))
    before = bus.sent
    clock.now_s += 1
    reports.finish(reports.start({"keys": []}))

    assert (before, bus.sent) == (0, 1)


def test_what_has_gathered_is_sent_at_once_if_it_is_much_and_at_the_end() -> None:
    bus = Bus({"FailedEntryCount": 0})
    reports = gathered_reports(bus, ManualClock())

    for number in range(1_000):
        report(reports, f"key {number}", number)
    full = bus.sent
    report(reports, "last", 1_000)
    reports.close()

    assert (full, bus.sent) == (1, 2)
    assert told_keys(bus) == [*(f"key {number}" for number in range(1_000)), "last"]


def told_keys(bus: Bus) -> list[str]:
    return [key["key"] for told in bus.details for key in told["keys"]]


def test_all_that_has_gathered_is_sent_by_the_read_that_finds_a_dead_bus_back() -> None:
    bus, clock = Bus(REFUSAL), ManualClock()
    reports = gathered_reports(bus, clock)
    report(reports, "lost", 1)
    clock.now_s += AT_MOST_S
    reports.finish(reports.start({"keys": []}))
    bus.answer, keys = {}, [f"{number:04d}" + "k" * 1_000 for number in range(400)]

    bus.details.clear()
    for number, key in enumerate(keys):
        report(reports, key, number)
    clock.now_s += AT_LEAST_S
    report(reports, keys[0], 400)

    assert told_keys(bus) == keys
    assert len(bus.details) > 10  # more than one call takes


def test_a_bus_that_hangs_is_waited_for_once_however_much_has_gathered() -> None:
    class Publisher(EventPublisher):
        waits = 0

        def finish(self, report: Any) -> None:
            self.waits += report is not None
            super().finish(report)

    bus, clock = Bus(None), ManualClock()
    publisher = Publisher("bus", bus, clock, wait_s=0.01)  # type: ignore[arg-type]
    reports = BatchedReports(publisher, clock, RULE)

    for number in range(1_000):
        report(reports, f"key {number}", number)
    bus.go_on.set()
    reports.close()

    assert (publisher.waits, bus.sent) == (1, 1)


def test_a_dead_bus_loses_what_has_gathered_and_a_later_read_tries_again() -> None:
    bus, clock = Bus(REFUSAL), ManualClock()
    reports = gathered_reports(bus, clock)

    report(reports, "a", 1)
    clock.now_s += AT_LEAST_S
    report(reports, "b", 2)
    bus.answer = {"FailedEntryCount": 0}
    report(reports, "c", 3)
    clock.now_s += OPEN_S + AT_LEAST_S
    report(reports, "d", 4)

    assert [[key["key"] for key in told["keys"]] for told in bus.details] == [["a", "b"], ["c", "d"]]
