"""Virtual time passes when, and only when, every participant is at rest."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from support.machines import Machines
from support.virtual_time import NothingHappensError, VirtualClock
from support.waiting import until

_HOUR_US = 3_600_000_000


def test_sleep_takes_its_time_on_the_clock() -> None:
    clock = VirtualClock()
    start_us = clock.now_us()

    clock.sleep(3600)

    assert (clock.now_us() - start_us, clock.monotonic_s()) == (3_600_000_000, 3600)


def test_sleepers_wake_in_the_order_of_their_instants() -> None:
    clock, woken = VirtualClock(), list[tuple[str, float]]()

    def sleeper(name: str, seconds: float) -> None:
        clock.sleep(seconds)
        woken.append((name, clock.monotonic_s()))

    ends = [clock.start(sleeper, name, seconds) for name, seconds in (("late", 20), ("early", 10), ("middle", 15))]
    for end in ends:
        clock.wait_for(end)

    assert woken == [("early", 10), ("middle", 15), ("late", 20)]


@pytest.mark.parametrize("happens_at_s", [7.25, 7.5])
def test_onlooker_wakes_at_its_first_step_at_which_something_has_happened(happens_at_s: float) -> None:
    clock = VirtualClock()
    slept = clock.start(clock.sleep, happens_at_s)
    clock.sleep(1)

    clock.look_on(0.5, clock.now_us() + _HOUR_US)

    assert (clock.monotonic_s(), slept.done()) == (7.5, True)


def test_onlooker_looks_again_at_once_if_somebody_is_at_work_as_it_begins() -> None:
    clock = VirtualClock()
    worked = clock.start(until, lambda: clock._onlookers)
    clock.start(clock.sleep, 60)

    clock.look_on(0.5, clock.now_us() + _HOUR_US)

    assert (clock.monotonic_s(), worked.done()) == (0.5, True)


def test_onlooker_of_nothing_wakes_at_its_limit() -> None:
    clock = VirtualClock()

    clock.look_on(0.5, clock.now_us() + _HOUR_US)

    assert clock.monotonic_s() == 3600


def test_onlooker_sees_what_another_onlooker_does() -> None:
    clock = VirtualClock()
    until_us = clock.now_us() + _HOUR_US
    clock.start(clock.sleep, 2)
    other = clock.start(clock.look_on, 5, until_us)
    clock.sleep(1)
    clock.look_on(1, until_us)
    assert clock.monotonic_s() == 2

    clock.look_on(1, until_us)

    assert (clock.monotonic_s(), other.done()) == (5, True)


def test_what_others_do_between_an_answer_and_the_next_rest_is_found_at_the_next_step() -> None:
    clock, is_up, may_begin = VirtualClock(), [False], threading.Event()
    world: Any = SimpleNamespace(clock=clock)

    def live() -> None:
        may_begin.wait()
        is_up[0] = True
        clock.sleep(4)
        is_up[0] = False

    def ask() -> bool:
        answer = is_up[0]
        may_begin.set()
        until(clock.is_alone)
        return answer

    clock.start(live)

    assert Machines.until(world, ask, within_s=10)
    assert clock.monotonic_s() == pytest.approx(0.1)


def test_time_stands_still_while_anybody_is_active() -> None:
    clock = VirtualClock()
    rested = clock.start(clock.sleep, 10)

    for _ in range(1_000):
        assert clock.monotonic_s() == 0
    clock.wait_for(rested)

    assert clock.monotonic_s() == 10


def test_participant_that_is_woken_does_not_wait_for_its_limit() -> None:
    clock, answer = VirtualClock(), Future[str]()

    def give() -> None:
        clock.sleep(5)
        answer.set_result("given")

    clock.start(give)

    assert clock.wait_for(answer, timeout_s=60) == "given"
    assert clock.monotonic_s() == 5


def test_wait_that_lasts_too_long_is_an_error() -> None:
    clock = VirtualClock()

    with pytest.raises(TimeoutError):
        clock.wait_for(Future[None](), timeout_s=7)

    assert clock.monotonic_s() == 7


def test_wait_for_what_nobody_will_do_is_an_error_at_once() -> None:
    with pytest.raises(NothingHappensError):
        VirtualClock().wait_for(Future[None]())


def test_error_of_a_participant_reaches_the_one_that_waits_for_it() -> None:
    clock = VirtualClock()

    def fail() -> None:
        clock.sleep(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        clock.wait_for(clock.start(fail))


def test_event_loop_waits_on_the_clock() -> None:
    clock = VirtualClock()
    loop = clock.new_event_loop()

    async def work() -> tuple[float, float]:
        async def nap(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return loop.time()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30 * 24 * 3600)
        late, early = await asyncio.gather(nap(10), nap(5))
        return late, early

    assert loop.run_until_complete(work()) == (2_592_010, 2_592_005)
    loop.close()


def test_event_loop_is_active_while_its_threads_are() -> None:
    clock = VirtualClock()
    loop = clock.new_event_loop()

    def blocking() -> float:
        clock.sleep(3)
        return clock.monotonic_s()

    async def work() -> tuple[float, float]:
        blocked = asyncio.create_task(asyncio.to_thread(blocking))
        await asyncio.sleep(2)
        return loop.time(), await blocked

    assert loop.run_until_complete(work()) == (2, 3)
    loop.close()


def test_call_from_another_thread_wakes_a_loop_that_waits_for_nothing() -> None:
    clock = VirtualClock()
    loop = clock.new_event_loop()
    running = clock.start(loop.run_forever)

    async def work() -> float:
        await asyncio.sleep(4)
        return clock.monotonic_s()

    assert clock.wait_for(asyncio.run_coroutine_threadsafe(work(), loop)) == 4
    loop.call_soon_threadsafe(loop.stop)
    clock.wait_for(running)
    loop.close()


@pytest.mark.parametrize(("within_s", "done", "at_s"), [(None, True, 20), (15, False, 15), (30, True, 20)])
def test_wait_for_several_lasts_until_the_last_of_them_or_its_limit(
    within_s: float | None, done: bool, at_s: float
) -> None:
    clock = VirtualClock()
    works = [clock.start(clock.sleep, seconds) for seconds in (20, 10)]

    assert (clock.wait(works, within_s), clock.monotonic_s()) == (done, at_s)
