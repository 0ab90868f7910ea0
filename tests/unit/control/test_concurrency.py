"""Things that are done at the same time, and what is done if they take long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from burstcache.adapters.clock import Clock, SystemClock
from burstcache.control.concurrency import run_concurrently
from support.virtual_time import VirtualClock
from support.waiting import LIMIT_S

_LATE_S = 0.25
_CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def lasting(clock: VirtualClock, seconds: float) -> Callable[[], float]:
    """Return work that takes that long, and returns it."""

    def work() -> float:
        clock.sleep(seconds)
        return seconds

    return work


@pytest.mark.parametrize(("takes_s", "done_s"), [([0.2], []), ([0.3], [_LATE_S]), ([0.1, 2.0], [_LATE_S])])
def test_what_is_for_works_that_are_late_is_done_once_and_while_they_go_on(
    clock: VirtualClock, takes_s: list[float], done_s: list[float]
) -> None:
    at_s: list[float] = []
    works = [lasting(clock, seconds) for seconds in takes_s]

    done = run_concurrently(clock, *works, late_s=_LATE_S, if_late=lambda: at_s.append(clock.monotonic_s()))

    assert (done, at_s) == (takes_s, done_s)
    assert clock.monotonic_s() == max(takes_s)


def test_works_go_on_to_their_end_where_what_is_for_late_ones_fails(clock: VirtualClock) -> None:
    def fail() -> None:
        raise ValueError("refused")

    done = run_concurrently(clock, lasting(clock, 2.0), late_s=_LATE_S, if_late=fail)

    assert (done, clock.monotonic_s()) == ([2.0], 2.0)


def test_a_late_work_that_fails_is_raised_and_not_what_is_for_late_works(clock: VirtualClock) -> None:
    def fail(seconds: float, name: str) -> None:
        clock.sleep(seconds)
        raise ValueError(name)

    with pytest.raises(ValueError, match="the work"):
        run_concurrently(
            clock, lambda: fail(2.0, "the work"), late_s=_LATE_S, if_late=lambda: fail(0.1, "for late works")
        )


def test_by_the_machines_clock_works_are_done_at_the_same_time() -> None:
    both = threading.Barrier(2)

    done = run_concurrently(SystemClock(), lambda: both.wait(LIMIT_S), lambda: both.wait(LIMIT_S))

    assert sorted(done) == [0, 1]  # each has met the other


def test_by_the_machines_clock_what_is_for_late_works_is_done_while_they_go_on() -> None:
    told = threading.Event()

    done = run_concurrently(SystemClock(), lambda: told.wait(LIMIT_S), late_s=0.0, if_late=told.set)

    assert done == [True]


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()], ids=["machine", "virtual"])
def test_the_first_error_in_the_order_of_the_works_is_raised_when_all_are_done(clock: Clock) -> None:
    done = []

    def fail(name: str) -> None:
        raise ValueError(name)

    with pytest.raises(ValueError, match="first"):
        run_concurrently(clock, lambda: done.append(1), lambda: fail("first"), lambda: fail("second"))

    assert done == [1]


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()], ids=["machine", "virtual"])
def test_works_are_done_in_the_context_of_their_caller(clock: Clock) -> None:
    token = _CALLER.set("control")
    try:
        assert run_concurrently(clock, _CALLER.get, _CALLER.get) == ["control", "control"]
    finally:
        _CALLER.reset(token)
