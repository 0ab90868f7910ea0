"""Breakers: a part that failed is left alone for a while, and no other part is."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from burstcache.adapters import circuit_breaker
from burstcache.adapters.circuit_breaker import BackgroundProbe, CircuitBreakers
from burstcache.adapters.clock import Clock
from support.clock import ManualClock, SleptClock
from support.interruptions import interrupt_at
from support.waiting import LIMIT_S


def test_breaker_opens_for_what_failed_and_closes_by_itself() -> None:
    clock = ManualClock()
    breakers = CircuitBreakers(clock, open_s=5)

    breakers.record_failure("redis")

    assert (breakers.is_open("redis"), breakers.is_open("lambda")) == (True, False)
    clock.now_s = 5.0
    assert not breakers.is_open("redis")


def test_a_breaker_closes_while_its_machine_sleeps() -> None:
    clock = SleptClock()
    breakers = CircuitBreakers(clock, open_s=5)
    breakers.record_failure("redis")

    clock.slept_s = 5

    assert not breakers.is_open("redis")


def failed(clock: ManualClock) -> CircuitBreakers:
    """Return breakers whose pause for "redis" has just ended."""
    breakers = CircuitBreakers(clock, open_s=5)
    breakers.record_failure("redis")
    clock.now_s += 5
    return breakers


def test_of_many_threads_one_finds_out_how_a_part_is() -> None:
    breakers, start = failed(ManualClock()), threading.Barrier(16)

    def ask(_: int) -> bool:
        start.wait(LIMIT_S)
        return breakers.is_open("redis")

    with ThreadPoolExecutor(16) as threads:
        assert sorted(threads.map(ask, range(16))) == [False] + [True] * 15


def test_all_ask_again_when_one_has_found_a_part_well() -> None:
    breakers = failed(ManualClock())
    breakers.is_open("redis")

    breakers.record_success("redis")

    assert [breakers.is_open("redis") for _ in range(3)] == [False] * 3


def test_a_part_that_was_asked_in_vain_is_left_alone_anew() -> None:
    clock = ManualClock()
    breakers = failed(clock)
    breakers.is_open("redis")
    clock.now_s += 1
    breakers.record_failure("redis")

    clock.now_s += 4.9
    is_open = breakers.is_open("redis")
    clock.now_s += 0.1

    assert (is_open, breakers.is_open("redis"), breakers.is_open("redis")) == (True, False, True)


def test_a_caller_that_never_says_how_it_went_is_forgotten() -> None:
    clock = ManualClock()
    breakers = failed(clock)
    breakers.is_open("redis")

    clock.now_s += 4.9
    is_open = breakers.is_open("redis")
    clock.now_s += 0.1

    assert (is_open, breakers.is_open("redis")) == (True, False)


def test_a_late_answer_to_what_was_asked_before_the_failure_closes_nothing() -> None:
    breakers = CircuitBreakers(ManualClock(), open_s=5)
    breakers.record_failure("redis")

    breakers.record_success("redis")

    assert breakers.is_open("redis")


def test_a_caller_that_did_not_find_out_leaves_it_to_the_next_one() -> None:
    breakers = failed(ManualClock())
    breakers.is_open("redis")

    breakers.release("redis")

    assert [breakers.is_open("redis") for _ in range(2)] == [False, True]


def test_what_has_just_failed_is_not_tried_because_a_caller_did_not_find_out() -> None:
    breakers = CircuitBreakers(ManualClock(), open_s=5)
    breakers.record_failure("redis")

    breakers.release("redis")

    assert breakers.is_open("redis")


def test_of_a_part_in_doubt_one_caller_finds_out_how_it_is() -> None:
    breakers = CircuitBreakers(ManualClock(), open_s=5)

    breakers.record_doubt("relay")

    assert not breakers.is_half_open("relay")
    assert [breakers.is_open("relay") for _ in range(2)] == [False, True]
    assert breakers.is_half_open("key", "relay")
    breakers.record_success("relay")
    assert [breakers.is_open("relay") for _ in range(2)] == [False, False]
    assert not breakers.is_half_open("relay")


def test_doubt_shortens_no_pause() -> None:
    breakers = CircuitBreakers(ManualClock(), open_s=5)
    breakers.record_failure("relay")

    breakers.record_doubt("relay")

    assert breakers.is_open("relay")


def test_each_pause_is_twice_as_long_as_the_one_before() -> None:
    clock = ManualClock()
    breakers = CircuitBreakers(clock, first_s=1, open_s=5)
    pauses_s: list[float] = []

    for _ in range(5):
        failed_s = clock.now_s
        breakers.record_failure("redis")
        breakers.record_failure("redis")  # asked before the first one failed
        while breakers.is_open("redis"):
            clock.now_s += 0.5
        pauses_s.append(clock.now_s - failed_s)

    assert pauses_s == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(("well_for_s", "is_open"), [(4.5, True), (5.0, False)])
def test_a_part_that_fails_soon_after_it_was_found_well_is_left_alone_for_longer(
    well_for_s: float, is_open: bool
) -> None:
    clock = ManualClock()
    breakers = CircuitBreakers(clock, first_s=1, open_s=5)
    breakers.record_failure("redis")
    clock.now_s += 1
    breakers.is_open("redis")
    breakers.record_success("redis")

    clock.now_s += well_for_s
    breakers.record_failure("redis")
    clock.now_s += 1

    assert breakers.is_open("redis") == is_open


def test_who_needs_two_parts_tries_neither_while_one_is_left_alone() -> None:
    clock = ManualClock()
    breakers = failed(clock)
    breakers.record_failure("key")

    assert breakers.is_open("redis", "key")
    assert not breakers.is_open("redis")


def test_breakers_of_many_keys_do_not_pile_up() -> None:
    clock = ManualClock()
    breakers = CircuitBreakers(clock, open_s=5)

    for number in range(5000):
        clock.now_s = float(number)
        breakers.record_failure(number)

    assert len(breakers._failures) <= 1024


class Place:
    """A part that is probed in the background: it counts its pings, and a test ends them."""

    def __init__(self, clock: Clock) -> None:
        self.is_down, self.pings = True, 0
        self.probes: list[Callable[[], None]] = []
        self.breakers = CircuitBreakers(
            clock, first_s=1, open_s=1, probe=BackgroundProbe(self.ping, self.probes.append)
        )

    def ping(self, name: object) -> None:
        self.pings += 1
        if self.is_down:
            raise OSError(f"{name} does not answer")

    def answer(self) -> None:
        """End the probe under way."""
        self.probes.pop()()


def test_a_part_that_failed_is_probed_after_a_sleep_that_only_the_time_of_day_has_counted() -> None:
    clock = SleptClock()
    place = Place(clock)
    place.is_down = False
    place.breakers.record_failure("s3")
    is_open_at_once = place.breakers.is_open("s3")

    clock.slept_s = 60
    place.breakers.is_open("s3")
    place.answer()

    assert (is_open_at_once, place.breakers.is_open("s3")) == (True, False)


def test_a_background_probe_that_fails_is_repeated_after_a_pause() -> None:
    clock = ManualClock()
    place = Place(clock)
    place.breakers.record_failure("s3")

    for _ in range(3):
        clock.sleep(1)
        assert place.breakers.is_open("s3")
        place.answer()
        assert place.breakers.is_open("s3")
    assert (place.pings, place.probes) == (3, [])


def test_callers_do_without_a_part_while_it_is_probed_however_long_and_one_probe_decides() -> None:
    clock = ManualClock()
    place = Place(clock)
    place.breakers.record_failure("s3")
    clock.sleep(1)

    for _ in range(5):
        assert place.breakers.is_open("s3")
        place.breakers.record_failure("s3")  # of a call that began before the first failure
        clock.sleep(10)
    place.is_down = False
    place.answer()

    assert (place.pings, place.breakers.is_open("s3")) == (1, False)


def test_wherever_a_caller_is_interrupted_a_later_one_probes() -> None:
    for number in itertools.count():
        clock = ManualClock()
        place = Place(clock)
        place.breakers.record_failure("redis")
        clock.now_s = 1.0
        interrupted = interrupt_at(number, circuit_breaker, partial(place.breakers.is_open, "redis"))

        if interrupted and not place.probes:
            clock.now_s = 2.0
            place.breakers.is_open("redis")
        assert place.probes, number
        if interrupted is None:
            break

    assert number > 3


def test_the_child_of_a_fork_probes_anew() -> None:
    clock = ManualClock()
    place = Place(clock)
    place.breakers.record_failure("s3")
    clock.sleep(1)
    place.breakers.is_open("s3")

    place.breakers.after_fork()

    assert place.breakers.is_open("s3")
    assert len(place.probes) == 2


def test_the_child_of_a_fork_may_ask_a_part_that_another_thread_of_its_parent_was_trying() -> None:
    breakers = failed(ManualClock())
    breakers.is_open("redis")

    breakers.after_fork()

    assert [breakers.is_open("redis") for _ in range(2)] == [False, True]
