"""Exceptions of callers that waited for one computation: each has its own, the same in all that can be seen."""

from __future__ import annotations

import asyncio
import threading
import traceback
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from burstcache.results import Cache, cached, open_cache
from support.waiting import LIMIT_S, until

CALLERS = 20


@pytest.fixture
def cache() -> Cache:
    return open_cache("memory://")


class Keyword(Exception):
    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(f"{text} {status}")
        self.status = status


@dataclass(frozen=True)
class Frozen(Exception):
    status: int


class Refusing(Exception):
    """Cannot be made twice."""

    def __str__(self) -> str:
        return str(id(self))


def follow(cache: Cache, error: BaseException) -> list[BaseException]:
    """Return the errors that the leader and its followers raise for one failed computation."""
    began, may_end, joined = threading.Event(), threading.Event(), threading.Barrier(CALLERS)

    @cached(backend=cache)
    def fail() -> None:
        began.set()
        may_end.wait(LIMIT_S)
        raise error

    def call() -> BaseException:
        joined.wait(LIMIT_S)
        try:
            fail()
        except BaseException as raised:
            return raised
        raise AssertionError

    with ThreadPoolExecutor(CALLERS) as threads:
        calls = [threads.submit(call) for _ in range(CALLERS)]
        began.wait(LIMIT_S)
        flight = next(iter(cache._flights._under_way.values()))
        until(lambda: len(flight.outcome._condition._waiters) == CALLERS - 1)  # type: ignore[attr-defined]
        may_end.set()
        raised = [each.result(LIMIT_S) for each in calls]
    assert fail.results.stats()["computed"] + fail.results.stats().get("followed", 0) == CALLERS
    return raised


@pytest.mark.parametrize(
    "error", [ValueError("no"), Keyword("a", status=404), Frozen(404)], ids=lambda error: type(error).__name__
)
def test_each_thread_that_waited_raises_an_exception_of_its_own(cache: Cache, error: Exception) -> None:
    raised = follow(cache, error)

    assert len({id(each) for each in raised}) == CALLERS
    assert {type(each) for each in raised} == {type(error)}
    assert max(len(traceback.extract_tb(each.__traceback__)) for each in raised) <= 10
    assert all("fail" in [frame.name for frame in traceback.extract_tb(each.__traceback__)] for each in raised)


def test_threads_that_waited_for_an_exception_without_a_copy_compute_themselves(cache: Cache) -> None:
    class Own(Refusing):
        pass

    @cached(backend=cache)
    def fail() -> None:
        raise Own

    barrier = threading.Barrier(3)

    def call() -> int:
        barrier.wait(LIMIT_S)
        with pytest.raises(Own) as raised:
            fail()
        return id(raised.value)

    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(call) for _ in range(3)]
        assert len({each.result(LIMIT_S) for each in calls}) == 3


def test_each_task_that_waited_raises_an_exception_of_its_own(cache: Cache) -> None:
    error = ValueError("no")
    error.add_note("noted")

    @cached(backend=cache)
    async def fail() -> None:
        await asyncio.sleep(0)
        raise error from LookupError("cause")

    async def call() -> list[Any]:
        return list(await asyncio.gather(*(fail() for _ in range(CALLERS)), return_exceptions=True))

    raised = asyncio.run(call())

    assert len({id(each) for each in raised}) == CALLERS
    assert {(str(each), repr(each.__cause__), *each.__notes__) for each in raised} == {
        ("no", "LookupError('cause')", "noted")
    }
    assert max(len(traceback.extract_tb(each.__traceback__)) for each in raised) <= 12


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_ends_the_leader_alone_ends_no_follower(cache: Cache, kind: type[BaseException]) -> None:
    began, may_end = threading.Event(), threading.Event()
    calls: list[int] = []

    @cached(backend=cache)
    def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            began.set()
            may_end.wait(LIMIT_S)
            raise kind
        return len(calls)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(work)
        began.wait(LIMIT_S)
        second = threads.submit(work)
        flight = next(iter(cache._flights._under_way.values()))
        until(lambda: bool(flight.outcome._condition._waiters))  # type: ignore[attr-defined]
        may_end.set()

        assert second.result(LIMIT_S) == 2
        with pytest.raises((kind, CancelledError)):
            first.result(LIMIT_S)


def test_an_exception_that_is_kept_is_new_at_each_hit(cache: Cache) -> None:
    @cached(backend=cache, exceptions={ValueError: 60})
    def fail() -> None:
        raise ValueError("no")

    raised = []
    for _ in range(5):
        with pytest.raises(ValueError, match="no") as info:
            fail()
        raised.append(info.value)

    assert len({id(each) for each in raised}) == 5
    assert fail.results.stats() == {"computed": 1, "memory": 4}
