"""Reports gather and are sent together; a bus that is gone costs the reader nothing but a line in the log."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from burstcache import logs
from burstcache.adapters.circuit_breaker import OPEN_S
from burstcache.adapters.event_batches import EventBatches
from burstcache.core.batching import BatchRule
from burstcache.core.messages.events import ObjectRequested
from burstcache.core.worth import MICRO, TierPrices, Worth
from support.clock import ManualClock
from support.waiting import LIMIT_S, until


def event(number: int) -> ObjectRequested:
    return {"key": f"key {number}", "at_us": number, "request_id": str(number), "size_bytes": 4, "etag": '"e"'}


class Bus:
    """Keeps what it is sent, unless it is to refuse it."""

    def __init__(self) -> None:
        self.calls: list[list[dict[str, Any]]] = []
        self.fails: Callable[[], dict[str, Any]] | None = None
        self.arrived = threading.Event()

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        self.arrived.set()
        if self.fails is not None:
            return self.fails()
        self.calls.append(Entries)
        return {"FailedEntryCount": 0, "Entries": [{} for _ in Entries]}

    @property
    def served(self) -> list[dict[str, Any]]:
        return [served for call in self.calls for entry in call for served in json.loads(entry["Detail"])["keys"]]

    @property
    def keys(self) -> list[str]:
        return [served["key"] for served in self.served]


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture(autouse=True)
def plain_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.adapters.event_batches.logger", lambda: log)


def batches_to(
    bus: Bus, clock: ManualClock | None = None, *, every_s: float = LIMIT_S, rule: BatchRule | None = None
) -> EventBatches:
    return EventBatches("bus", bus, clock or ManualClock(), every_s=every_s, rule=rule)  # type: ignore[arg-type]


class Enough(BatchRule):
    """Looks at nothing but the weight."""

    def is_due(self, *, age_us: int, weight: int) -> bool:
        return weight >= self.threshold


def test_what_is_worth_too_little_waits_for_more(bus: Bus) -> None:
    free = Worth(Fraction(1), TierPrices(Fraction(0), Fraction(0), Fraction(0)))
    batches = batches_to(bus, every_s=0.001, rule=Enough(free, 3 * MICRO))

    batches.start(event(1))
    batches.start({"keys": [{"key": "a", "requests": ["2:r"], "size_bytes": 4, "etag": '"e"', "left_out": 1}]})
    until(lambda: bus.arrived.is_set())
    batches.close()

    assert bus.keys[:2] == ["key 1", "a"]
    assert len(bus.calls) == 1


def test_reports_gather_by_key_in_few_events(bus: Bus) -> None:
    batches = batches_to(bus)

    for number in range(1150):
        batches.start(event(number))
    batches.close()

    assert [len(call) for call in bus.calls] == [10, 2]
    assert bus.keys == [f"key {number}" for number in range(1150)]
    assert bus.calls[0][0] | {"Detail": ""} == {
        "EventBusName": "bus",
        "Source": "burstcache.proxy",
        "DetailType": "RequestsServed",
        "Detail": "",
    }


def test_of_a_key_the_newest_reads_are_reported_and_what_is_known_of_it(bus: Bus) -> None:
    batches = batches_to(bus)

    for number in range(20):
        confirmed = {"size_bytes": 0, "etag": ""} if number == 19 else {}
        batches.start({**event(number), "key": "a", **confirmed})  # type: ignore[arg-type]
    batches.start({"keys": [{"key": "a", "requests": ["20:r"], "size_bytes": 5, "etag": ""}]})
    batches.close()

    (served,) = bus.served
    assert served["requests"] == [*(f"{number}:{number}" for number in range(13, 20)), "20:r"]
    assert (served["size_bytes"], served["etag"]) == (5, '"e"')


def test_events_are_sent_without_a_close(bus: Bus) -> None:
    batches = batches_to(bus, every_s=0.001)

    for number in range(3):
        batches.start(event(number))
        until(lambda count=number + 1: len(bus.keys) == count)  # type: ignore[misc]
    batches.close()

    assert batches.dropped == 0


def test_reports_that_no_thread_could_send_go_out_with_the_next_one(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    refused, batches = batches_to(bus), batches_to(bus)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for each in (refused, batches):
            each.start(event(0))
    refused.close()
    batches.start(event(1))
    batches.close()

    assert bus.keys == ["key 0", "key 1"]


def test_a_close_sends_what_came_while_a_batch_was_on_its_way(bus: Bus) -> None:
    batches = batches_to(bus, every_s=0.001)
    is_closed = threading.Event()

    def close() -> None:
        batches.close()
        is_closed.set()

    def is_closing() -> int:
        batches.start(event(1))
        return batches.dropped  # nothing is, before it closes

    def close_meanwhile() -> dict[str, Any]:
        bus.fails = None
        is_closing()
        threading.Thread(target=close).start()
        until(is_closing)
        return {"Entries": []}

    bus.fails = close_meanwhile
    batches.start(event(0))

    assert is_closed.wait(LIMIT_S)
    assert bus.keys == ["key 1"]


def test_a_call_stays_below_what_the_bus_takes(bus: Bus) -> None:
    batches = batches_to(bus)

    for number in range(100):
        batches.start({**event(number), "key": f"{number:04d}" * 256 + "\N{SNOWMAN}" * 1000})
    batches.close()

    assert len(bus.keys) == 100
    assert max(sum(len(entry["Detail"]) for entry in call) for call in bus.calls) < 256_000


def refuse() -> dict[str, Any]:
    return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "AccessDeniedException"}]}


def break_down() -> dict[str, Any]:
    raise ConnectionError("nobody there")


@pytest.mark.parametrize(("failure", "reason"), [(refuse, "AccessDeniedException"), (break_down, "nobody there")])
def test_a_bus_that_fails_is_left_alone_and_reported_once(
    bus: Bus, failure: Callable[[], dict[str, Any]], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus.fails, clock = failure, ManualClock()
    batches = batches_to(bus, clock, every_s=0.001)

    for number in range(3):
        batches.start(event(number))
        until(lambda count=number + 1: batches.dropped == count)  # type: ignore[misc]
        clock.now_s += 0.8 * OPEN_S
    bus.fails = None
    clock.now_s += OPEN_S
    batches.start(event(3))
    batches.close()

    assert bus.keys == ["key 3"]
    (line,) = caplog.messages
    assert "reads are not reported" in line
    assert reason in line


def test_what_a_hanging_bus_cannot_take_is_dropped_and_counted(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.adapters.event_batches._MAX_WAITING", 5)
    go_on = threading.Event()
    bus.fails = lambda: {"Entries": [], "waited": go_on.wait(LIMIT_S)}
    batches = batches_to(bus, every_s=0.001)

    batches.start(event(0))
    assert bus.arrived.wait(LIMIT_S)
    for number in range(1, 9):
        batches.start(event(number))
    dropped = batches.dropped
    go_on.set()
    batches.close()

    assert dropped == 3


def test_after_its_close_it_takes_nothing(bus: Bus) -> None:
    batches = batches_to(bus)
    batches.close()

    batches.start(event(1))

    assert (bus.calls, batches.dropped) == ([], 1)
