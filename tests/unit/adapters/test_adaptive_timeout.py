"""Adaptive timeout of reads from tiers that a reader can do without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from burstcache.adapters.adaptive_timeout import LEAST_S, MOST_S, AdaptiveTimeout, BoundedCalls, with_timeout
from burstcache.adapters.clock import SystemClock
from burstcache.core.errors import ServiceTransientError
from support.clock import ManualClock
from support.waiting import LIMIT_S


def test_a_part_is_waited_for_in_proportion_to_what_s3_takes() -> None:
    patience = AdaptiveTimeout()

    patience.record_s3_latency(0.1)

    assert patience.wait_s == pytest.approx(0.4)


@pytest.mark.parametrize(("s3_s", "wait_s"), [(0.001, LEAST_S), (20.0, MOST_S)])
def test_the_wait_has_bounds(s3_s: float, wait_s: float) -> None:
    patience = AdaptiveTimeout()

    for _ in range(100):
        patience.record_s3_latency(s3_s)

    assert patience.wait_s == wait_s


def test_the_parts_of_a_read_share_its_wait() -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    whole_s = patience.wait_s
    patience.begin()

    with patience.waiting():
        clock.now_s += whole_s / 4
        assert patience.wait_s == pytest.approx(whole_s * 3 / 4)
    clock.now_s += 60  # S3 answers

    assert not patience.is_exhausted
    with patience.waiting():
        clock.now_s += whole_s / 2
        assert patience.wait_s == pytest.approx(whole_s / 4)
    assert not patience.is_exhausted  # a slow digest keeps nobody from a tier that is well
    with patience.waiting():
        clock.now_s += whole_s / 8
    assert patience.is_exhausted
    patience.begin()
    assert not patience.is_exhausted


def test_a_part_that_has_failed_gets_half_of_the_wait() -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    whole_s = patience.wait_s
    patience.begin()

    with patience.waiting(is_trial=True):
        assert patience.wait_s == pytest.approx(whole_s / 2)
        clock.now_s += whole_s / 2

    assert not patience.is_exhausted  # by the other parts
    with patience.waiting(is_trial=True):
        clock.now_s += whole_s / 4
        assert patience.wait_s == pytest.approx(whole_s / 4)


def test_the_reads_of_two_threads_have_a_wait_each() -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    patience.begin()
    with patience.waiting():
        clock.now_s += 60

    in_another_thread: list[bool] = []
    thread = threading.Thread(target=lambda: in_another_thread.append(patience.is_exhausted))
    thread.start()
    thread.join()

    assert patience.is_exhausted
    assert in_another_thread == [False]


def test_a_read_has_one_wait_in_all_of_its_threads() -> None:
    clock = ManualClock()
    timeout = AdaptiveTimeout(clock=clock)
    timeout.begin()
    with timeout.waiting():
        clock.now_s += 60

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(timeout.shared(lambda: timeout.is_exhausted)).result(LIMIT_S)


def test_one_slow_answer_of_s3_changes_the_wait_a_little() -> None:
    patience = AdaptiveTimeout()
    patience.record_s3_latency(0.02)

    patience.record_s3_latency(60.0)

    assert LEAST_S < patience.wait_s < 0.6


def test_what_s3_took_long_ago_says_nothing_of_now() -> None:
    clock = ManualClock()
    patience = AdaptiveTimeout(clock=clock)
    unknown_s = patience.wait_s

    patience.record_s3_latency(0.2)
    clock.now_s += 10
    assert patience.wait_s == pytest.approx(0.8)
    clock.now_s += 1
    assert patience.wait_s == unknown_s
    patience.record_s3_latency(0.1)

    assert unknown_s < 0.4  # by which a read is to be over that meets a part which hangs
    assert patience.wait_s == pytest.approx(0.4)


def test_a_call_in_time_gives_its_answer_or_its_error() -> None:
    patience = AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S)

    def fail() -> int:
        raise TimeoutError("its own")

    assert with_timeout(lambda: 1, patience)() == 1
    with pytest.raises(TimeoutError, match="its own"):
        with_timeout(fail, patience)()


def test_a_call_that_hangs_is_given_up_and_so_are_those_after_it() -> None:
    goes_on = threading.Event()
    bounded = with_timeout(lambda: goes_on.wait(LIMIT_S), AdaptiveTimeout(least_s=0.01, most_s=0.01))

    for _ in range(3):
        with pytest.raises(ServiceTransientError, match=r"no answer in 0.01 s"):
            bounded()

    goes_on.set()


def test_a_call_whose_bytes_keep_coming_is_waited_for_up_to_the_most_that_a_read_may_take() -> None:
    goes_on, reported = threading.Event(), threading.Event()
    clock, patience = ManualClock(), AdaptiveTimeout(least_s=0.01, most_s=LIMIT_S)
    for _ in range(200):
        patience.record_s3_latency(0.0)

    def receive(report: Callable[[int], None]) -> str:
        report(10**12)
        reported.set()
        goes_on.wait(LIMIT_S)
        return "received"

    def go_on() -> None:
        reported.wait(LIMIT_S)
        clock.now_s = 1.0  # not before: a thread may start later than the least wait
        goes_on.wait(0.05)  # several looks at the clock, if the bytes extend nothing
        goes_on.set()

    threading.Thread(target=go_on).start()

    assert BoundedCalls(patience, clock).run(receive) == "received"


def test_a_call_that_trickles_is_given_up_and_ends_at_its_next_bytes() -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def trickle(report: Callable[[int], None]) -> None:
        report(20)
        goes_on.wait(LIMIT_S)
        try:
            report(20)
        finally:
            ended.set()

    calls = BoundedCalls(AdaptiveTimeout(least_s=0.01, most_s=0.01), SystemClock())
    with pytest.raises(ServiceTransientError, match=r"no answer in 0.01 s"):
        calls.run(trickle)
    goes_on.set()

    assert ended.wait(LIMIT_S)


def test_a_call_that_fails_gives_its_own_error() -> None:
    def fail(report: Callable[[int], None]) -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        BoundedCalls(AdaptiveTimeout(), SystemClock()).run(fail)
