"""Results in several places: who is asked, who is filled, and what a place that fails costs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache import logs
from burstcache.adapters.clock import Instant
from burstcache.results import Cache, cached
from burstcache.results.entries import ResultEntry, pack
from burstcache.results.layers import PROBE_EVERY_S, Layers, SharedLayer
from burstcache.results.leases import Renewals
from burstcache.results.memory import ResultMemory
from burstcache.results.steps import call_in_thread
from support.clock import ManualClock
from support.result_stores import HeldStore
from support.waiting import LIMIT_S, until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def near() -> HeldStore:
    return HeldStore("redis")


@pytest.fixture
def far() -> HeldStore:
    return HeldStore("s3")


def guarded(store: HeldStore, clock: ManualClock) -> SharedLayer:
    return SharedLayer(store, clock, start=lambda probe: probe())


def cache_of(clock: ManualClock, *stores: HeldStore, memory: ResultMemory | None = None) -> Cache:
    return Cache(Layers(memory, [guarded(store, clock) for store in stores]), clock)


class Square:
    """A cached function that counts its computations."""

    def __init__(self, cache: Cache, wait_s: float = 0, **options: Any) -> None:
        self.computed = 0

        @cached(backend=cache, version="1", wait_s=wait_s, **options)
        def square(number: int) -> int:
            self.computed += 1
            return number * number

        self.call = square


def test_a_result_goes_into_all_places(clock: ManualClock, near: HeldStore, far: HeldStore) -> None:
    function = Square(cache_of(clock, near, far))

    assert function.call(3) == 9
    assert near.kept == far.kept != {}
    assert near.leases == {}


def test_a_result_found_below_is_put_into_the_places_above(clock: ManualClock, near: HeldStore, far: HeldStore) -> None:
    memory = ResultMemory()
    function = Square(cache_of(clock, near, far, memory=memory))
    function.call(3)
    near.kept.clear()
    memory.close()

    assert [function.call(3), function.call(3)] == [9, 9]
    assert near.kept == far.kept
    assert function.call.results.stats() == {"computed": 1, "s3": 1, "memory": 1}


def test_another_process_finds_what_this_one_computed(clock: ManualClock, near: HeldStore) -> None:
    first, second = Square(cache_of(clock, near)), Square(cache_of(clock, near))

    assert (first.call(3), second.call(3)) == (9, 9)
    assert (first.computed, second.computed) == (1, 0)


@dataclass
class Product:
    name: str


def test_an_entry_of_an_unknown_class_is_a_miss_whose_log_line_ends_with_the_annotation_to_add(
    clock: ManualClock, near: HeldStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.results.function_results.logger", lambda: log)

    def find(name: str):  # type: ignore[no-untyped-def]
        return Product(name)

    first, second = (cached(backend=cache_of(clock, near), version="1")(find) for _ in range(2))

    assert first("tea") == second("tea") == Product("tea")
    assert second.results.stats() == {"computed": 1}
    assert caplog.messages[-1].endswith("; annotate it: -> Product)")


def test_forget_reaches_every_place(clock: ManualClock, near: HeldStore, far: HeldStore) -> None:
    function = Square(cache_of(clock, near, far, memory=ResultMemory()))
    function.call(3)

    function.call.results.forget(3)

    assert near.kept == far.kept == {}
    function.call(3)
    assert function.computed == 2


def test_what_is_forgotten_while_it_is_put_is_removed_again(
    clock: ManualClock, near: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, put = ResultMemory(), near.put
    function = Square(cache_of(clock, near, memory=memory))

    def forget_before(key: str, data: bytes, *, kept_ms: int) -> None:
        function.call.results.forget(3)
        put(key, data, kept_ms=kept_ms)

    monkeypatch.setattr(near, "put", forget_before)

    assert function.call(3) == 9
    assert near.kept == {}
    assert memory.get(str(function.call.results.key(3))) is None
    assert set(near.leases.values()) == {"-"}


@pytest.mark.parametrize("operation", ["get", "take_lease"])
def test_what_is_forgotten_while_it_is_read_is_put_nowhere(
    clock: ManualClock, near: HeldStore, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    memory, read = ResultMemory(), getattr(near, operation)
    function = Square(cache_of(clock, near, memory=memory))
    function.call(3)
    memory.close()
    if operation == "take_lease":  # the first look has found nothing
        monkeypatch.setattr(near, "get", lambda *_, **__: None)

    def forget_behind(*arguments: Any, **named: Any) -> Any:
        found = read(*arguments, **named)
        function.call.results.forget(3)
        return found

    monkeypatch.setattr(near, operation, forget_behind)

    assert function.call(3) == 9
    assert memory.get(str(function.call.results.key(3))) is None


@pytest.mark.parametrize("during", ["near", "far"])
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_read_while_a_key_is_forgotten_brings_nothing_back(
    clock: ManualClock, near: HeldStore, far: HeldStore, monkeypatch: pytest.MonkeyPatch, during: str, is_before: bool
) -> None:
    memory, store = ResultMemory(), {"near": near, "far": far}[during]
    function, forget = Square(cache_of(clock, near, far, memory=memory)), store.forget
    function.call(3)

    def read_meanwhile(key: str) -> None:
        if not is_before:
            forget(key)
        function.call(3)
        if is_before:
            forget(key)

    monkeypatch.setattr(store, "forget", read_meanwhile)

    assert function.call.results.forget(3)
    assert near.kept == far.kept == {}
    assert memory.get(str(function.call.results.key(3))) is None


def test_who_forgets_learns_that_a_place_may_still_have_it(clock: ManualClock, near: HeldStore, far: HeldStore) -> None:
    function = Square(cache_of(clock, near, far))
    function.call(3)
    far.is_down = True

    is_forgotten = function.call.results.forget(3)

    assert (is_forgotten, near.kept, len(far.kept)) == (False, {}, 1)
    far.is_down = False
    clock.sleep(PROBE_EVERY_S)
    assert function.call.results.forget(3)


def test_a_stale_result_that_cannot_be_computed_anew_is_warned_of(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.results.cache.logger", lambda: log)
    cache, versions = cache_of(clock, memory=ResultMemory()), iter([1])

    @cached(backend=cache, ttl_s=1, stale_s=60)
    def read() -> int:
        try:
            return next(versions)
        except StopIteration:
            raise OSError("no answer") from None

    read()
    clock.sleep(2)

    assert read() == 1
    until(lambda: caplog.messages)
    assert "read" in caplog.text
    assert "no answer" in caplog.text


def test_a_place_that_is_down_is_asked_once_and_probed_in_the_background(clock: ManualClock, near: HeldStore) -> None:
    function = Square(cache_of(clock, near))
    near.is_down = True

    assert [function.call(3) for _ in range(5)] == [9] * 5
    assert near.calls == ["get"]
    clock.sleep(PROBE_EVERY_S)
    function.call(3)
    assert near.calls == ["get", "ping"]

    near.is_down = False
    clock.sleep(PROBE_EVERY_S)
    function.call(3)
    assert near.kept
    assert function.computed == 7
    assert function.call(3) == 9
    assert function.computed == 7


def test_a_place_that_fails_while_the_function_runs_costs_no_more(clock: ManualClock, near: HeldStore) -> None:
    @cached(backend=cache_of(clock, near))
    def work() -> int:
        near.is_down = True
        return 1

    assert work() == 1
    assert near.calls == ["get", "take_lease", "put"]


def test_a_full_place_hands_its_lease_on_open(clock: ManualClock, near: HeldStore) -> None:
    near.is_full = True
    function = Square(cache_of(clock, near))

    assert [function.call(3), function.call(3)] == [9, 9]
    assert set(near.leases.values()) == {"-"}


def test_a_caller_waits_for_another_environment_no_longer_than_it_may(clock: ManualClock, near: HeldStore) -> None:
    function = Square(cache_of(clock, near))
    key = str(function.call.results.key(3))
    near.leases[key] = "another's token"

    assert function.call(3) == 9
    assert near.leases == {key: "another's token"}


def test_a_stale_result_is_renewed_by_one_environment_alone(clock: ManualClock, near: HeldStore) -> None:
    memory = ResultMemory()
    cache = cache_of(clock, near, memory=memory)
    function = Square(cache, wait_s=60, ttl_s=10, stale_s=100)
    key = str(function.call.results.key(3))
    function.call(3)
    clock.sleep(11)
    near.leases[key] = "another's token"

    assert [function.call(3) for _ in range(5)] == [9] * 5
    assert until(lambda: near.calls.count("take_lease") > 3)
    stored(near, key, payload=b"99")
    near.leases.clear()

    assert until(lambda: function.call(3) == 99)
    assert function.computed == 1
    assert until(lambda: not cache.is_computing(key))


def test_a_stale_result_is_computed_by_one_thread(clock: ManualClock, near: HeldStore) -> None:
    function = Square(cache_of(clock, near), ttl_s=10, stale_s=100)
    function.call(3)
    clock.sleep(11)

    assert function.call(3) == 9
    assert until(lambda: function.computed == 2 and not near.leases)
    assert function.call.results.stats()["stale"] == 1


def stored(near: HeldStore, key: str, **changes: Any) -> None:
    entry = ResultEntry("value", "json", b"1", Instant(0, 1_000_000_000_000), 1_000_000, 1_000_000)._replace(**changes)
    near.kept[key] = pack(entry, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": b"no JSON"},
        {"codec": "pickle"},
        {"kind": "error", "payload": b'["os.system", ["true"]]'},
        {"kept_ms": 0},
        {"made": Instant(0, 1_999_000_000_000)},
        {"payload": b"1" * (2 << 20)},
    ],
)
def test_an_entry_that_cannot_be_trusted_is_computed_anew(
    clock: ManualClock, near: HeldStore, changes: dict[str, Any]
) -> None:
    function = Square(cache_of(clock, near))
    key = str(function.call.results.key(3))
    stored(near, key, **changes)

    assert [function.call(3), function.call(3)] == [9, 9]
    assert function.computed == 1


def test_bytes_that_are_no_entry_are_computed_anew(clock: ManualClock, near: HeldStore) -> None:
    function = Square(cache_of(clock, near))
    for data in (b"", b"\n", b"burstcache-result/1 value json plain 1 5 5\n1", bytes(500)):
        near.kept[str(function.call.results.key(3))] = data
        assert function.call(3) == 9


@given(st.binary(), st.sampled_from([b"", b"value json plain ", b"value json zlib ", b"value json zstd "]))
def test_whatever_is_under_a_key_breaks_no_call(data: bytes, start: bytes) -> None:
    near = HeldStore()
    function = Square(cache_of(ManualClock(1_000_000.0), near))
    size = str(len(data)).encode()
    stored_bytes = b"burstcache-result/2 " + start + size + b" - 1000000000 9999 9999\n" + data if start else data
    near.kept[str(function.call.results.key(3))] = stored_bytes

    assert function.call(3) == 9 or start == b"value json plain "  # which may be JSON


def test_a_defect_of_a_place_breaks_no_call(
    clock: ManualClock, near: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = Square(cache_of(clock, near))
    monkeypatch.setattr(near, "get", lambda key, **_: 1 / 0)

    assert [function.call(3), function.call(3)] == [9, 9]


def test_tasks_ask_shared_places_too(clock: ManualClock, near: HeldStore) -> None:
    @cached(backend=cache_of(clock, near), version="1", wait_s=LIMIT_S)
    async def of(number: int) -> int:
        return number * number

    async def ask() -> list[int]:
        return [await of(3), await of(3), *await asyncio.gather(*(of(4) for _ in range(5)))]

    assert asyncio.run(ask()) == [9, 9, *[16] * 5]
    assert of.results.stats()["computed"] == 2


MADE = Instant(1.0, 1_000_000)


def test_memory_keeps_within_its_bytes_and_its_time() -> None:
    memory = ResultMemory(10_000, ttl_ms=2_000)
    entries = {str(number): ResultEntry("value", "bytes", bytes(2_000), MADE, 9_000, 9_000) for number in range(5)}
    for key, entry in entries.items():
        memory.put(key, entry, age_ms=500)

    assert [key for key in entries if memory.get(key)] == ["2", "3", "4"]
    assert memory.get("4") == entries["4"]._replace(fresh_ms=2_500, kept_ms=2_500)
    memory.put("large", ResultEntry("value", "bytes", bytes(10_000), MADE, 9_000, 9_000), age_ms=0)
    assert memory.get("large") is None
    assert memory.get("4")


def test_memory_lets_the_least_often_used_leave_first() -> None:
    memory = ResultMemory(6_000, eviction="lfu")
    entry = ResultEntry("value", "bytes", bytes(2_000), MADE, 9_000, 9_000)
    memory.put("often", entry, age_ms=0)
    for _ in range(3):
        memory.get("often")
    for key in ("one", "two"):
        memory.put(key, entry, age_ms=0)

    assert memory.get("often")
    assert memory.get("one") is None


@contextmanager
def no_thread_to_be_had() -> Iterator[None]:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


def test_a_place_whose_probe_gets_no_thread_fails_no_call_and_is_probed_later(
    clock: ManualClock, near: HeldStore
) -> None:
    function = Square(Cache(Layers(None, [SharedLayer(near, clock)]), clock))
    near.is_down = True
    function.call(3)
    near.is_down = False
    clock.sleep(PROBE_EVERY_S)

    with no_thread_to_be_had():
        assert function.call(3) == 9
    assert not near.kept

    clock.sleep(PROBE_EVERY_S)
    assert until(lambda: function.call(3) == 9 and near.kept)


def test_a_lease_whose_renewals_get_no_thread_fails_no_call(
    clock: ManualClock, near: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burstcache.results.leases._RENEW_EVERY_S", 0.001)
    cache = cache_of(clock, near)
    with no_thread_to_be_had():
        assert Square(cache).call(3) == 9

    @cached(backend=cache)
    def work() -> bool:
        return until(lambda: "renew_lease" in near.calls)

    assert work()


def test_a_task_that_gets_no_thread_to_ask_a_place_asks_it_itself(clock: ManualClock, near: HeldStore) -> None:
    @cached(backend=cache_of(clock, near), version="1")
    async def of(number: int) -> int:
        return number * number

    async def call_twice() -> list[int]:
        return [await of(3), await of(3)]

    with no_thread_to_be_had():
        assert asyncio.run(call_twice()) == [9, 9]
    assert of.results.stats() == {"computed": 1, "redis": 1}
    assert near.calls.count("take_lease") == 1


def test_what_a_task_does_itself_a_thread_of_the_pool_does_not_do_again(caplog: pytest.LogCaptureFixture) -> None:
    may_end, calls = threading.Event(), []
    with ThreadPoolExecutor(2) as pool:
        pool.submit(may_end.wait, LIMIT_S)
        with no_thread_to_be_had():
            asyncio.run(call_in_thread(lambda: calls.append(1), pool))
        may_end.set()

    assert (calls, caplog.records) == ([1], [])


def test_a_renewal_that_fails_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.results.leases._RENEW_EVERY_S", 0.001)
    renewals, renewed = Renewals(), threading.Semaphore(0)

    def fail() -> None:
        renewed.release()
        raise RuntimeError("no")

    handle = renewals.begin(fail)
    try:
        assert all(renewed.acquire(timeout=LIMIT_S) for _ in range(3))
    finally:
        renewals.end(handle)


class SlowStore(HeldStore):
    """Store whose put waits for the test, after it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end, self.has_ended = threading.Event(), threading.Event(), threading.Event()

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        self.has_begun.set()
        assert self.may_end.wait(LIMIT_S)
        super().put(key, data, kept_ms=kept_ms)
        self.has_ended.set()


def test_a_cancelled_call_does_not_store_a_result_that_was_forgotten_meanwhile(clock: ManualClock) -> None:
    store = SlowStore()
    cache = cache_of(clock, store)

    @cached(backend=cache, version="1")
    async def compute() -> int:
        return 1

    async def cancel_then_forget() -> bool:
        task = asyncio.create_task(compute())
        await asyncio.to_thread(store.has_begun.wait, LIMIT_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return compute.results.forget()

    assert asyncio.run(cancel_then_forget())
    store.may_end.set()
    assert store.has_ended.wait(LIMIT_S)
    cache.threads.shutdown()

    assert store.kept == {}


def test_a_cancelled_call_stores_the_result_that_it_has_begun_to_store(clock: ManualClock) -> None:
    store = SlowStore()
    cache = cache_of(clock, store)

    @cached(backend=cache, version="1")
    async def compute() -> int:
        return 1

    async def cancel() -> None:
        task = asyncio.create_task(compute())
        await asyncio.to_thread(store.has_begun.wait, LIMIT_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    store.may_end.set()
    cache.threads.shutdown()

    assert len(store.kept) == 1
