"""Breakers: a part that failed is left alone for a while, and no other part is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from burstcache.adapters.breaker import Breakers
from support.clock import ManualClock, SleptClock
from support.waiting import LIMIT_S


def test_breaker_opens_for_what_failed_and_closes_by_itself() -> None:
    clock = ManualClock()
    breakers = Breakers(clock, open_s=5)

    breakers.fail("redis")

    assert (breakers.is_open("redis"), breakers.is_open("lambda")) == (True, False)
    clock.now_s = 5.0
    assert not breakers.is_open("redis")


def test_a_breaker_closes_while_its_machine_sleeps() -> None:
    clock = SleptClock()
    breakers = Breakers(clock, open_s=5)
    breakers.fail("redis")

    clock.slept_s = 5

    assert not breakers.is_open("redis")


def failed(clock: ManualClock) -> Breakers:
    """Return breakers whose pause for "redis" has just ended."""
    breakers = Breakers(clock, open_s=5)
    breakers.fail("redis")
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

    breakers.succeed("redis")

    assert [breakers.is_open("redis") for _ in range(3)] == [False] * 3


def test_a_part_that_was_asked_in_vain_is_left_alone_anew() -> None:
    clock = ManualClock()
    breakers = failed(clock)
    breakers.is_open("redis")
    clock.now_s += 1
    breakers.fail("redis")

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
    breakers = Breakers(ManualClock(), open_s=5)
    breakers.fail("redis")

    breakers.succeed("redis")

    assert breakers.is_open("redis")


def test_a_caller_that_did_not_find_out_leaves_it_to_the_next_one() -> None:
    breakers = failed(ManualClock())
    breakers.is_open("redis")

    breakers.release("redis")

    assert [breakers.is_open("redis") for _ in range(2)] == [False, True]


def test_what_has_just_failed_is_not_tried_because_a_caller_did_not_find_out() -> None:
    breakers = Breakers(ManualClock(), open_s=5)
    breakers.fail("redis")

    breakers.release("redis")

    assert breakers.is_open("redis")


def test_of_a_part_in_doubt_one_caller_finds_out_how_it_is() -> None:
    breakers = Breakers(ManualClock(), open_s=5)

    breakers.doubt("relay")

    assert not breakers.is_tried("relay")
    assert [breakers.is_open("relay") for _ in range(2)] == [False, True]
    assert breakers.is_tried("key", "relay")
    breakers.succeed("relay")
    assert [breakers.is_open("relay") for _ in range(2)] == [False, False]
    assert not breakers.is_tried("relay")


def test_doubt_shortens_no_pause() -> None:
    breakers = Breakers(ManualClock(), open_s=5)
    breakers.fail("relay")

    breakers.doubt("relay")

    assert breakers.is_open("relay")


def test_each_pause_is_twice_as_long_as_the_one_before() -> None:
    clock = ManualClock()
    breakers = Breakers(clock, first_s=1, open_s=5)
    pauses_s: list[float] = []

    for _ in range(5):
        failed_s = clock.now_s
        breakers.fail("redis")
        breakers.fail("redis")  # asked before the first one failed
        while breakers.is_open("redis"):
            clock.now_s += 0.5
        pauses_s.append(clock.now_s - failed_s)

    assert pauses_s == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(("well_for_s", "is_open"), [(4.5, True), (5.0, False)])
def test_a_part_that_fails_soon_after_it_was_found_well_is_left_alone_for_longer(
    well_for_s: float, is_open: bool
) -> None:
    clock = ManualClock()
    breakers = Breakers(clock, first_s=1, open_s=5)
    breakers.fail("redis")
    clock.now_s += 1
    breakers.is_open("redis")
    breakers.succeed("redis")

    clock.now_s += well_for_s
    breakers.fail("redis")
    clock.now_s += 1

    assert breakers.is_open("redis") == is_open


def test_who_needs_two_parts_tries_neither_while_one_is_left_alone() -> None:
    clock = ManualClock()
    breakers = failed(clock)
    breakers.fail("key")

    assert breakers.is_open("redis", "key")
    assert not breakers.is_open("redis")


def test_breakers_of_many_keys_do_not_pile_up() -> None:
    clock = ManualClock()
    breakers = Breakers(clock, open_s=5)

    for number in range(5000):
        clock.now_s = float(number)
        breakers.fail(number)

    assert len(breakers._failed) <= 1024
