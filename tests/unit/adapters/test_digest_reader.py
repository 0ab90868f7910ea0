"""The digest reader: frequency of its reads, waiting readers, and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import Mock

import pytest

from burstcache.adapters import digest_reader
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.circuit_breaker import FIRST_S
from burstcache.adapters.digest_reader import DigestReader
from burstcache.core.digest import MAX_AGE_S, Digest, Route, RoutedKey
from burstcache.core.errors import ServiceError
from support.clock import ManualClock
from support.waiting import LIMIT_S

_HASH = "0" * 32
_LAMBDA = RoutedKey(1, 1, "lambda", deadline_at_us=2**62)


@dataclass
class Table:
    """A digest that counts its readings, or fails."""

    digest: Digest = field(default_factory=lambda: Digest(routes={_HASH: _LAMBDA}))
    readings: int = 0
    is_dead: bool = False

    def read(self) -> Digest:
        self.readings += 1
        if self.is_dead:
            raise ServiceError("no answer", code="Timeout")
        return self.digest


@dataclass
class Desk:
    """A reader of the digest with its surroundings."""

    table: Table = field(default_factory=Table)
    clock: ManualClock = field(default_factory=ManualClock)
    waiting: list[Callable[[], None]] = field(default_factory=list)  # what is to be done in the background

    def __post_init__(self) -> None:
        self.reader = DigestReader(self.table.read, self.clock, start=self.waiting.append)

    def route_at(self, now_s: float) -> Route | None:
        self.clock.now_s = now_s
        return self.reader.route(_HASH)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_nothing_is_read_before_somebody_asks(desk: Desk) -> None:
    assert (desk.table.readings, desk.reader.sequence) == (0, None)


def test_the_digest_is_read_every_second_and_a_half_however_often_somebody_asks(desk: Desk) -> None:
    for tenths in range(150):
        assert desk.route_at(tenths / 10) == Route("lambda")
        for work in desk.waiting:
            work()
        desk.waiting.clear()

    assert desk.table.readings == 10


def test_between_three_quarters_and_the_bound_nobody_waits_for_the_digest(desk: Desk) -> None:
    desk.route_at(0)
    desk.table.digest = Digest()

    found = [desk.route_at(now_s) for now_s in (1.49, 1.5, 1.75, MAX_AGE_S)]

    assert found == [Route("lambda")] * 4
    assert (desk.table.readings, len(desk.waiting)) == (1, 1)


def test_beyond_the_bound_the_one_who_asks_waits_for_the_digest(desk: Desk) -> None:
    desk.route_at(0)
    desk.table.digest = Digest()

    assert desk.route_at(MAX_AGE_S + 0.001) is None
    assert (desk.table.readings, desk.waiting) == (2, [])


def test_an_environment_that_slept_by_the_wall_clock_alone_reads_anew(desk: Desk) -> None:
    class Frozen(ManualClock):
        """Does not count its sleep in `monotonic_s`."""

        def monotonic_s(self) -> float:
            return 0.0

    desk.clock = Frozen()
    desk.__post_init__()
    desk.route_at(0)

    desk.route_at(3600)

    assert desk.table.readings == 2


def test_a_digest_that_cannot_be_read_is_asked_for_once_until_the_breaker_closes(desk: Desk) -> None:
    desk.table.is_dead = True

    found = [desk.route_at(now_s) for now_s in (0, 0.1, 0.2, 0.3, 0.4)]
    readings = desk.table.readings
    desk.table.is_dead = False

    assert (found, readings) == ([None] * 5, 1)
    assert desk.route_at(FIRST_S) == Route("lambda")


def test_a_digest_within_its_bound_is_used_where_no_thread_can_refresh_it(desk: Desk) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    desk.reader = DigestReader(desk.table.read, desk.clock, start=start)

    assert [desk.route_at(now_s) for now_s in (0, 1.6)] == [Route("lambda")] * 2
    assert desk.reader.is_known_within(2)


def test_what_fails_in_the_background_is_tried_again_by_the_read_that_needs_it(desk: Desk) -> None:
    desk.route_at(0)
    desk.table.is_dead = True
    desk.route_at(1.5)
    desk.waiting.pop()()
    desk.table.is_dead = False

    assert [desk.route_at(now_s) for now_s in (1.9, MAX_AGE_S + 0.1)] == [Route("lambda")] * 2
    assert desk.table.readings == 3


@dataclass
class Hanging(Table):
    """A digest whose reading hangs until a test lets it go on."""

    begun: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)

    def read(self) -> Digest:
        self.begun.set()
        assert self.may_end.wait(LIMIT_S)
        return super().read()


def test_a_read_waits_for_another_ones_reading_no_longer_than_its_patience() -> None:
    table = Hanging()
    reader = DigestReader(table.read, ManualClock(), adaptive_timeout=AdaptiveTimeout(least_s=0.01, most_s=0.01))
    first = threading.Thread(target=reader.route, args=(_HASH,))
    first.start()
    assert table.begun.wait(LIMIT_S)

    assert reader.route(_HASH) is None

    table.may_end.set()
    first.join(LIMIT_S)
    assert table.readings == 1
    assert reader.route(_HASH) == Route("lambda")


def test_while_one_read_tries_a_lost_digest_again_no_other_one_waits() -> None:
    table, clock = Hanging(is_dead=True), ManualClock()
    table.may_end.set()
    reader = DigestReader(table.read, clock, adaptive_timeout=AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S))
    reader.route(_HASH)
    table.begun.clear()
    table.may_end.clear()
    clock.now_s = FIRST_S
    trying = threading.Thread(target=reader.route, args=(_HASH,))
    trying.start()
    assert table.begun.wait(LIMIT_S)

    others = [threading.Thread(target=reader.route, args=(_HASH,)) for _ in range(8)]
    for other in others:
        other.start()
    for other in others:
        other.join(LIMIT_S / 2)

    assert not any(other.is_alive() for other in others)
    assert trying.is_alive()
    table.may_end.set()
    trying.join(LIMIT_S)


def test_a_digest_that_had_too_little_of_a_reads_wait_is_not_left_alone(desk: Desk) -> None:
    patience = AdaptiveTimeout(clock=desk.clock)
    reader = DigestReader(desk.table.read, desk.clock, adaptive_timeout=patience)
    desk.table.is_dead = True
    patience.begin()
    with patience.waiting():
        desk.clock.sleep(0.9 * patience.wait_s)  # a tier took it

    reader.route(_HASH)
    desk.table.is_dead = False

    assert reader.route(_HASH) == Route("lambda")


def test_a_dead_digest_is_logged_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Mock()
    monkeypatch.setattr(digest_reader, "logger", lambda: log)
    desk.table.is_dead = True

    for now_s in range(0, 60, 6):
        desk.route_at(now_s)

    assert [call.args[0] for call in log.warning.call_args_list] == ["digest not read, S3 serves"]


def test_a_digest_that_cannot_be_read_while_the_process_ends_is_not_logged(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock()
    monkeypatch.setattr(digest_reader, "logger", lambda: log)
    monkeypatch.setattr(threading, "main_thread", threading.Thread)  # one that is over, or has not begun
    desk.table.is_dead = True

    assert desk.route_at(0) is None

    assert log.warning.call_count == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gets_per_s", "readings_per_million"), [(0.5, 1_000_000), (1, 500_000), (100, 6_667), (1000, 667)]
)
def test_readings_per_million_gets_of_a_hundred_keys(desk: Desk, gets_per_s: float, readings_per_million: int) -> None:
    """A read per key and second would be 1,000,000 at each of these rates, or 100,000 for keys in a tier at 1,000/s."""
    hashes = [f"{number:032x}" for number in range(100)]
    for number in range(30_000):
        desk.clock.now_s = number / gets_per_s
        desk.reader.route(hashes[number % 100])
        while desk.waiting:
            desk.waiting.pop()()

    assert round(desk.table.readings * 100 / 3) == readings_per_million


def test_a_route_that_missed_is_looked_for_at_once_where_it_is_now(desk: Desk) -> None:
    desk.route_at(0)
    desk.table.digest = Digest(routes={_HASH: RoutedKey(2, 1, "lambda", deadline_at_us=2**62)})

    desk.reader.forget(_HASH)

    assert desk.route_at(0.1) == Route("lambda")
    assert desk.table.readings == 2


def test_a_route_that_still_misses_is_left_alone_until_the_next_digest(desk: Desk) -> None:
    desk.route_at(0)

    for _ in range(100):
        desk.reader.forget(_HASH)
        assert desk.route_at(0.1) is None
    readings = desk.table.readings

    assert readings == 2
    assert desk.route_at(0.1 + MAX_AGE_S + 0.1) == Route("lambda")


def test_followers_know_a_digest_before_anybody_else(desk: Desk) -> None:
    seen: list[int | None] = []
    desk.table.digest = Digest(sequence=5)
    desk.reader.subscribe(lambda digest: seen.extend((digest.sequence, desk.reader.sequence)))

    desk.route_at(0)

    assert (seen, desk.reader.sequence) == ([5, None], 5)


def test_of_many_threads_that_wait_one_reads() -> None:
    begun, may_end = threading.Event(), threading.Event()
    table = Table()

    def slowly() -> Digest:
        begun.set()
        assert may_end.wait(LIMIT_S)
        return table.read()

    reader = DigestReader(slowly, ManualClock(), adaptive_timeout=AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S))
    found: list[Route | None] = []
    threads = [threading.Thread(target=lambda: found.append(reader.route(_HASH))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert begun.wait(LIMIT_S)
    may_end.set()
    for thread in threads:
        thread.join(LIMIT_S)

    assert (found, table.readings) == ([Route("lambda")] * 8, 1)
