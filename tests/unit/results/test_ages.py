"""Ages of results: by a monotonic clock within a process, by wall time between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burstcache.results import Cache, cached
from burstcache.results.layers import Layers, SharedLayer
from burstcache.results.memory import ResultMemory
from support.clock import SleptClock, SteppedClock
from support.result_stores import HeldStore

HOUR_S = 3600.0


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(1_000_000.0)


def cache_of(clock: Any, memory: ResultMemory | None = None, *stores: HeldStore) -> Cache:
    return Cache(Layers(memory, [SharedLayer(each, clock) for each in stores]), clock)


def counter(cache: Cache, **options: Any) -> Callable[[], int]:
    """Return a cached function whose result is the number of its computations."""
    computed: list[int] = []

    def count() -> int:
        computed.append(1)
        return len(computed)

    return cached(backend=cache, version="1", wait_s=0, **options)(count)


@pytest.mark.parametrize("step_s", [-HOUR_S, -5.0, -400 * 86_400.0])
@pytest.mark.parametrize(("has_store", "has_memory"), [(False, True), (True, False), (True, True)])
def test_a_clock_that_is_set_back_makes_no_result_younger(
    clock: SteppedClock, step_s: float, has_store: bool, has_memory: bool
) -> None:
    count = counter(
        cache_of(clock, ResultMemory() if has_memory else None, *([HeldStore()] if has_store else [])), ttl_s=10
    )
    count()
    clock.step_s = step_s

    clock.sleep(9.9)
    assert count() == 1
    clock.sleep(0.1)
    assert count() == 2
    clock.sleep(9.9)
    assert count() == 2


@pytest.mark.parametrize("step_s", [5.0, HOUR_S, 400 * 86_400.0])
def test_a_clock_that_is_set_forward_and_back_makes_no_result_live_longer(clock: SteppedClock, step_s: float) -> None:
    count = counter(cache_of(clock, ResultMemory()), ttl_s=10)
    clock.step_s = step_s
    assert count() == 1
    clock.step_s = 0

    clock.sleep(9.9)
    assert count() == 1
    clock.sleep(0.1)
    assert count() == 2


def test_a_result_ages_while_the_environment_sleeps_as_wall_time_alone_may_count_that() -> None:
    clock = SleptClock()
    count = counter(cache_of(clock, ResultMemory()), ttl_s=10)
    count()

    clock.slept_s = 10

    assert count() == 2


def test_the_time_of_memory_goes_by_the_same_clock(clock: SteppedClock) -> None:
    count = counter(cache_of(clock, ResultMemory(ttl_ms=2_000), HeldStore()), ttl_s=60)
    count()
    clock.step_s = -HOUR_S
    clock.sleep(2)

    assert count() == 1
    assert count.results.stats() == {"computed": 1, "redis": 1}  # type: ignore[attr-defined]


def test_a_result_from_a_store_is_as_old_as_its_maker_says(clock: SteppedClock) -> None:
    store = HeldStore()
    one = counter(cache_of(clock, None, store), ttl_s=10)
    one()
    clock.sleep(6)
    other = counter(cache_of(clock, ResultMemory(), store), ttl_s=10)
    other()
    clock.sleep(3.9)
    assert other() == 1
    assert other.results.stats() == {"redis": 1, "memory": 1}  # type: ignore[attr-defined]

    clock.sleep(0.1)
    other()

    assert other.results.stats()["computed"] == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("step_s", "is_found"), [(-59, True), (-61, False), (-HOUR_S, False), (9, True), (10, False)])
def test_a_process_whose_clock_is_wrong_finds_no_result_of_the_future(
    clock: SteppedClock, step_s: float, is_found: bool
) -> None:
    store = HeldStore()
    counter(cache_of(clock, None, store), ttl_s=10)()
    clock.step_s = step_s
    other = counter(cache_of(clock, ResultMemory(), store), ttl_s=10)

    other()

    assert other.results.stats() == ({"redis": 1} if is_found else {"computed": 1})  # type: ignore[attr-defined]


def test_a_stale_result_of_a_store_is_served_no_longer_after_the_clock_is_set_back(clock: SteppedClock) -> None:
    count = counter(cache_of(clock, None, HeldStore()), ttl_s=10, stale_s=5)
    count()
    clock.step_s = -HOUR_S
    clock.sleep(15)

    assert count() == 2
