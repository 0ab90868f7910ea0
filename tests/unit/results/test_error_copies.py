"""Exceptions of callers that waited for one computation: each has its own, the same in all that can be seen."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from burstcache.results import Cache, cached, open_cache
from burstcache.results.error_copies import copy_error
from support.waiting import LIMIT_S, until

CALLERS = 20


@pytest.fixture
def cache() -> Cache:
    return open_cache("memory://")


class Keyword(Exception):
    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(f"{text} {status}")
        self.status = status


class Slots(Exception):
    __slots__ = ("status",)

    def __init__(self, status: int) -> None:
        self.status = status


class OwnNew(Exception):
    def __new__(cls, *, status: int) -> OwnNew:
        return super().__new__(cls)

    def __init__(self, *, status: int) -> None:
        self.status = status


@dataclass(frozen=True)
class Frozen(Exception):
    status: int


class Counting(Exception):
    made = 0

    def __init__(self) -> None:
        type(self).made += 1


def _raised(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError


ERRORS = [
    ValueError("no"), KeyError("a"), OSError(2, "no", "a.txt"), FileNotFoundError(2, "no", "a", None, "b"),
    BlockingIOError(11, "no", 5), ImportError("no", name="a", path="b"), StopIteration(5), Keyword("a", status=404),
    Slots(404), OwnNew(status=404), Counting(), ExceptionGroup("no", [ValueError(1), KeyError(2)]),
    UnicodeEncodeError("utf8", "a", 0, 1, "no"), _raised(lambda: b"\xff".decode()), _raised(lambda: (1).a),  # type: ignore[attr-defined]
    _raised(lambda: compile("a b", "file", "exec")), _raised(lambda: int("x")),
    ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject"), EndpointConnectionError(endpoint_url="http://a"),
]  # fmt: skip
_ATTRIBUTES = (
    "filename", "filename2", "errno", "strerror", "characters_written", "name", "path", "obj", "value", "status",
    "object", "start", "lineno", "text", "exceptions", "response", "operation_name",
)  # fmt: skip


def _seen(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error), "args": error.args, "text": str(error), "repr": repr(error), "variables": vars(error),
        "cause": error.__cause__, "context": error.__context__, "is_suppressed": error.__suppress_context__,
        **{name: getattr(error, name, None) for name in _ATTRIBUTES},
    }  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("cause", [None, LookupError("cause")])
def test_a_copy_has_all_that_can_be_seen_and_notes_of_its_own(error: Exception, cause: Exception | None) -> None:
    error.add_note("first")
    error.__cause__ = cause
    made = Counting.made

    copy = copy_error(error, None)

    assert copy is not None
    assert copy is not error
    assert _seen(copy) == _seen(error)
    copy.add_note("second")
    assert error.__notes__ == ["first"]
    assert Counting.made == made
    del error.__notes__


class Refusing(Exception):
    """Cannot be made twice."""

    def __str__(self) -> str:
        return str(id(self))


def test_an_exception_that_no_copy_equals_is_not_copied() -> None:
    assert copy_error(Refusing(), None) is None


def follow(cache: Cache, error: BaseException) -> list[BaseException]:
    """Return what the leader and its followers raise for one computation that fails."""
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
        flight = next(iter(cache._flights._flights.values()))
        until(lambda: len(flight._condition._waiters) == CALLERS - 1)  # type: ignore[attr-defined]
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
        flight = next(iter(cache._flights._flights.values()))
        until(lambda: bool(flight._condition._waiters))  # type: ignore[attr-defined]
        may_end.set()

        assert second.result(LIMIT_S) == 2
        with pytest.raises((kind, CancelledError)):
            first.result(LIMIT_S)


def test_an_exception_that_is_kept_is_new_at_each_hit(cache: Cache) -> None:
    @cached(backend=cache, exceptions={ValueError: 60})
    def fail() -> None:
        raise ValueError("no")

    raised = [_raised(fail) for _ in range(5)]

    assert len({id(each) for each in raised}) == 5
    assert fail.results.stats() == {"computed": 1, "memory": 4}
