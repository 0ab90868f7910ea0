"""Reads of one thing at the same time: which of them read, how old what they share is, and what they raise."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import le
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from burstcache.adapters import single_flight
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.single_flight import LEFT_AFTER_S, FlightOutcome, SingleFlight, always
from burstcache.core.errors import OriginError, ServiceError, WrongTypeError
from support.interruptions import interrupt_at
from support.searches import seeds
from support.virtual_time import VirtualClock
from support.waiting import LIMIT_S, until

_CALLERS = 40


class Source:
    """Source of reads. Its version counts the writes, and a read returns the version half-way through it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.version, self.reads = clock, 0, 0

    def read(self, takes_s: float) -> int:
        self.reads += 1
        self.clock.sleep(takes_s / 2)
        found = self.version
        self.clock.sleep(takes_s / 2)
        return found


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("bound_s", [0.0, 0.05, 0.3])
def test_no_caller_gets_an_older_value_than_it_accepts_and_few_read(seed: int, bound_s: float) -> None:
    draw, clock = random.Random(seed), VirtualClock()
    source = Source(clock)
    flights: SingleFlight[int, float] = SingleFlight(clock, clock.monotonic_s, next_after_s=draw.choice([0.025, 0.1]))
    written: list[tuple[float, int]] = [(clock.monotonic_s(), 0)]  # since when a version is known to be there
    fails, failed = draw.random() < 0.3, list[tuple[int, str]]()

    def read() -> int:
        takes_s = draw.uniform(0.01, 0.2)
        if fails and draw.random() < 0.2:
            clock.sleep(takes_s)
            raise OriginError("no", status=400, code="Code")
        return source.read(takes_s)

    def call() -> None:
        for _ in range(4):
            clock.sleep(draw.uniform(0, 0.1))
            began_s = clock.monotonic_s()
            newest = max((version for at_s, version in written if at_s <= began_s - bound_s), default=0)
            try:
                version, _ = flights.run("a", read, may_follow=partial(le, began_s - bound_s))
            except OriginError as error:
                failed.append((error.status, error.code))
            else:
                assert version >= newest

    def write() -> None:
        for version in range(1, 12):
            clock.sleep(draw.uniform(0, 0.08))
            source.version = version
            written.append((clock.monotonic_s(), version))

    parts = [clock.start(part) for part in (write, *[call] * _CALLERS)]
    for part in parts:
        clock.wait_for(part)

    assert set(failed) <= {(400, "Code")}
    assert source.reads < 4 * _CALLERS / 2
    assert not flights._under_way
    assert not flights._next


def test_a_hundred_callers_at_once_are_two_reads() -> None:
    clock = VirtualClock()
    source = Source(clock)
    flights: SingleFlight[int, float] = SingleFlight(clock, clock.monotonic_s)

    parts = [clock.start(lambda: flights.run("a", lambda: source.read(0.02))) for _ in range(100)]
    for part in parts:
        clock.wait_for(part)

    assert source.reads == 2


@pytest.mark.parametrize(
    "error",
    [
        OriginError("no", status=400, code="InvalidRequest"),
        ServiceError("no", code="Throttled"),
        EndpointConnectionError(endpoint_url="http://s3"),
        ClientError({"Error": {"Code": "SlowDown"}}, "GetObject"),
        WrongTypeError.of("key", None, "str"),
        ValueError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_each_caller_gets_an_exception_and_a_traceback_of_its_own(error: Exception) -> None:
    flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)
    begun, is_over = threading.Event(), threading.Event()

    def fail() -> int:
        begun.set()
        is_over.wait(LIMIT_S)
        raise error

    def call() -> Exception:
        try:
            flights.run("a", fail, may_follow=always)
        except Exception as raised:
            return raised
        raise AssertionError

    with ThreadPoolExecutor(20) as threads:
        callers = [threads.submit(call)]
        begun.wait(LIMIT_S)
        (flight,) = list(flights._under_way.values()) or list(flights._next.values())
        callers += [threads.submit(call) for _ in range(19)]
        until(lambda: len(flight.outcome._condition._waiters) == 19)  # type: ignore[attr-defined]
        is_over.set()
        raised = [each.result(LIMIT_S) for each in callers]

    assert len({id(each) for each in raised}) == 20
    assert {(type(each), str(each)) for each in raised} == {(type(error), str(error))}
    assert {getattr(each, "code", "") for each in raised} == {getattr(error, "code", "")}
    assert max(len(traceback.extract_tb(each.__traceback__)) for each in raised) < 10


def test_tasks_that_wait_hold_no_thread_and_outlive_a_cancelled_leader() -> None:
    flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)
    reads, may_end = list[int](), threading.Event()

    def read() -> int:
        reads.append(1)
        may_end.wait(LIMIT_S)
        return len(reads)

    async def main(threads: ThreadPoolExecutor) -> list[Any]:
        calls = [asyncio.ensure_future(flights.run_in_thread("a", read, threads.submit)) for _ in range(50)]
        await asyncio.sleep(0)
        calls[0].cancel()
        calls[7].cancel()
        may_end.set()
        return list(await asyncio.gather(*calls, return_exceptions=True))

    with ThreadPoolExecutor(2) as threads:
        outcomes = asyncio.run(main(threads))

    cancelled = [index for index, each in enumerate(outcomes) if isinstance(each, asyncio.CancelledError)]
    assert cancelled == [0, 7]
    assert all(each[0] in (1, 2) for each in outcomes if not isinstance(each, BaseException))
    assert len(reads) <= 2


def test_two_event_loops_share_a_read() -> None:
    flights: SingleFlight[str, bool] = SingleFlight(SystemClock(), lambda: True)
    begun, may_end, reads = threading.Event(), threading.Event(), list[int]()

    def read() -> str:
        reads.append(1)
        begun.set()
        may_end.wait(LIMIT_S)
        return "value"

    def in_a_loop(threads: ThreadPoolExecutor) -> str:
        return asyncio.run(flights.run_in_thread("a", read, threads.submit, may_follow=always))[0]

    with ThreadPoolExecutor(2) as threads, ThreadPoolExecutor(2) as loops:
        first = loops.submit(in_a_loop, threads)
        begun.wait(LIMIT_S)
        (flight,) = flights._under_way.values()
        second: Future[str] = loops.submit(in_a_loop, threads)
        until(lambda: flight.is_followed and len(flight.outcome._done_callbacks) == 2)  # type: ignore[attr-defined]
        may_end.set()
        values = first.result(LIMIT_S), second.result(LIMIT_S)

    assert (values, len(reads)) == (("value", "value"), 1)


def test_a_read_that_no_thread_takes_fails_its_caller_alone() -> None:
    flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="new thread"):
        asyncio.run(flights.run_in_thread("a", lambda: 1, refuse))

    assert flights.run("a", lambda: 2) == (2, None)


def test_those_that_wait_leave_a_read_that_hangs() -> None:
    clock = VirtualClock()
    source = Source(clock)
    flights: SingleFlight[int, float] = SingleFlight(clock, clock.monotonic_s)
    took_s = list[float]()
    takes_s = iter([30.0])

    def call() -> None:
        began_s = clock.monotonic_s()
        flights.run("a", lambda: source.read(next(takes_s, 0.1)), may_follow=always)
        took_s.append(clock.monotonic_s() - began_s)

    parts = [clock.start(call) for _ in range(10)]
    for part in parts:
        clock.wait_for(part)

    assert sorted(took_s)[-2] < LEFT_AFTER_S + 0.5
    assert source.reads == 2


def test_the_child_of_a_fork_does_not_wait_for_its_parents_reads() -> None:
    flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)
    begun, is_over = threading.Event(), threading.Event()

    def read() -> int:
        begun.set()
        is_over.wait(LIMIT_S)
        return 1

    reader = threading.Thread(target=flights.run, args=("a", read))
    reader.start()
    begun.wait(LIMIT_S)
    child = multiprocessing.get_context("fork").Process(
        target=flights.run, args=("a", lambda: 2), kwargs={"may_follow": lambda _: True}
    )
    child.start()
    child.join(LIMIT_S)
    is_over.set()
    reader.join(LIMIT_S)

    assert child.exitcode == 0


def test_the_child_of_a_fork_ends_no_read_of_its_parent_and_leads_its_own() -> None:
    flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)
    flight, _ = flights.join("a")
    flights.begin("a", flight)

    flights.after_fork()
    is_known = flights.has("a")
    flights.land("a", flight, FlightOutcome(1))

    assert (is_known, flight.outcome.done()) == (False, False)
    assert flights.run("a", lambda: 2, may_follow=always) == (2, None)


def test_a_read_for_which_nobody_waits_can_be_left() -> None:
    flights: SingleFlight[bool, bool] = SingleFlight(SystemClock(), lambda: True)

    is_left, _ = flights.fly("a", lambda flight: flights.leave("a", flight), lambda: False)

    assert is_left


def test_a_read_within_a_read_of_the_same_thing_does_not_wait_for_itself() -> None:
    clock = VirtualClock()
    flights: SingleFlight[str, float] = SingleFlight(clock, clock.monotonic_s)

    def inner() -> str:
        return "inner"

    def outer() -> str:
        value, _ = flights.run("key", inner, may_follow=always)
        return f"outer of {value}"

    began_s = clock.monotonic_s()

    assert flights.run("key", outer)[0] == "outer of inner"
    assert clock.monotonic_s() == began_s


def test_wherever_a_read_is_interrupted_its_followers_are_free_and_the_next_one_reads() -> None:
    def interruption(number: int) -> KeyboardInterrupt | None:
        followed: list[Future[Any]] = []

        def follow() -> bool:
            if not followed:
                followed.append(flights.join("a")[0].outcome)
            return True

        flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), follow)
        interrupted = interrupt_at(number, single_flight, lambda: flights.run("a", lambda: 1))

        assert all(outcome.done() for outcome in followed), number
        assert not flights.has("a"), number
        assert flights.run("a", lambda: 2) == (2, None)
        return interrupted

    assert next(number for number in itertools.count() if interruption(number) is None) > 10


def test_wherever_a_task_is_interrupted_before_its_read_begins_the_next_one_reads() -> None:
    for number in itertools.count():
        flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)

        def read(flights: SingleFlight[int, bool] = flights) -> None:
            asyncio.run(flights.run_in_thread("a", lambda: 1, lambda call: call()))

        interrupted = interrupt_at(number, single_flight, read)

        assert not flights.has("a"), number
        assert flights.run("a", lambda: 2) == (2, None)
        if interrupted is None:
            break

    assert number > 10


def test_a_read_whose_task_was_interrupted_may_still_end() -> None:
    flights: SingleFlight[int, bool] = SingleFlight(SystemClock(), lambda: True)
    mine = flights.new_flight()
    flight, _ = flights.join("a", always, mine)
    flights.begin("a", flight)

    flights.abandon("a", mine)
    flights.land("a", flight, FlightOutcome(1))

    assert flight.outcome.result() is None
