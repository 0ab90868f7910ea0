"""Slices of large objects: each is read once from the tiers below, whoever wants parts of it, and kept."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import OriginUnavailableError
from burstcache.core.slices import SLICE_BYTES, Slice, SliceNames, Version
from burstcache.serve.scan_resistant import ScanResistantCache
from burstcache.serve.slice_memory import SliceMemory
from burstcache.serve.slices import Slices
from support.clock import ManualClock
from support.memory_disk import MemoryDisk
from support.part_sources import MemoryPartSource
from support.waiting import LIMIT_S, until

_BODY = random.Random(1).randbytes(20 * SLICE_BYTES + 12_345)
_VERSION = Version("key", "hash", '"1"', len(_BODY))
_NAMES = SliceNames("", "bucket")

positions = st.one_of(
    st.integers(0, len(_BODY)),
    st.builds(lambda index, offset: index * SLICE_BYTES + offset, st.integers(0, 20), st.integers(-2, 2)),
).map(lambda position: min(max(position, 0), len(_BODY)))


class Source(MemoryPartSource):
    """S3, which holds back all bytes after an offset in the object until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[Exception] = []
        self.hold_at = len(_BODY) + 1
        self.release = threading.Event()

    def body(self, version: Version) -> bytes:
        return _BODY

    def await_bytes(self, end: int) -> None:
        if end > self.hold_at:
            assert self.release.wait(LIMIT_S)
        if self.errors:
            raise self.errors.pop()

    def close(self) -> None:
        self.release.set()


@pytest.fixture
def source() -> Iterator[Source]:
    source = Source()
    yield source
    source.close()


class Shared:
    """Slices that readers share, and that accept all others."""

    def __init__(self, tier: str = "redis") -> None:
        self.tier = tier
        self.bodies: dict[str, bytes] = {}
        self.asked: list[list[str]] = []
        self.hold: threading.Event | None = None
        self.hold_stores: threading.Event | None = None
        self.stores = 0
        self.accepts_any = True

    def fetch(
        self, slices: Sequence[Slice], found: Callable[[Slice, bytes, str], object]
    ) -> tuple[list[Slice], Shared]:
        self.asked.append([each.name for each in slices])
        if self.hold is not None:
            assert self.hold.wait(LIMIT_S)
        held = {
            each.name: self.bodies[each.name] for each in slices if each.name in self.bodies
        }  # stores go on meanwhile
        for each in slices:
            if each.name in held:
                found(each, held[each.name], self.tier)
        return [each for each in slices if each.name not in held], self

    def put(self, bodies: dict[str, bytes]) -> None:
        self.stores += 1
        if self.hold_stores is not None:
            assert self.hold_stores.wait(LIMIT_S)
        self.bodies.update(bodies)

    def close(self) -> None:
        pass


def slices_of(
    source: Source,
    *,
    memory_bytes: int = 32 * SLICE_BYTES,
    disk: MemoryDisk | None = None,
    shared: Shared | None = None,
) -> Slices:
    stand_in: Any = source
    shared_stand_in: Any = shared
    memory = SliceMemory(ScanResistantCache(memory_bytes)) if memory_bytes else None
    return Slices(stand_in, _NAMES, ManualClock(), memory=memory, disk=disk, shared=shared_stand_in)


def read_later(slices: Slices, start: int, end: int) -> tuple[bytearray, Future[str]]:
    body = bytearray(end - start)
    return body, slices.begin(_VERSION, start, memoryview(body))


def read_and_keep(slices: Slices, start: int, end: int) -> str:
    """Read a range, and wait until its slices are kept, for which the read itself does not wait. Return its tier."""
    tier = slices.read(_VERSION, start, end)[1]
    until(lambda: not slices._flights._under_way)
    return tier


@pytest.mark.parametrize("memory_bytes", [0, 3 * SLICE_BYTES, 32 * SLICE_BYTES], ids=["disk", "little", "memory"])
@given(st.lists(st.tuples(positions, positions), min_size=1, max_size=6))
def test_any_range_has_its_bytes_from_whatever_tier(memory_bytes: int, ranges: list[tuple[int, int]]) -> None:
    slices = slices_of(Source(), memory_bytes=memory_bytes, disk=MemoryDisk())
    for start, end in (sorted(each) for each in ranges):
        if start < end:
            assert slices.read(_VERSION, start, end)[0] == _BODY[start:end]
    slices.close()


def test_a_range_is_read_from_s3_once_in_whole_slices(source: Source) -> None:
    slices = slices_of(source)
    tiers = [read_and_keep(slices, SLICE_BYTES - 10, SLICE_BYTES + 10) for _ in range(2)]
    tiers.append(read_and_keep(slices, 5, 2 * SLICE_BYTES))

    assert tiers == ["s3", "memory", "memory"]
    assert source.requested == [(0, 2 * SLICE_BYTES)]


def test_only_the_missing_slices_of_a_range_are_requested_and_adjacent_ones_together(source: Source) -> None:
    slices = slices_of(source)
    slices.read(_VERSION, 3 * SLICE_BYTES, 3 * SLICE_BYTES + 1)
    source.requested.clear()

    assert slices.read(_VERSION, 0, 8 * SLICE_BYTES) == (_BODY[: 8 * SLICE_BYTES], "s3")
    assert source.requested == [(0, 3 * SLICE_BYTES), (4 * SLICE_BYTES, 8 * SLICE_BYTES)]


def test_the_wanted_bytes_do_not_wait_for_the_rest_of_their_slice(source: Source) -> None:
    slices, source.hold_at = slices_of(source), 1000

    assert slices.read(_VERSION, 100, 1000) == (_BODY[100:1000], "s3")
    source.release.set()
    until(lambda: slices.recall(_VERSION, 0, SLICE_BYTES) is not None)
    assert source.requested == [(0, SLICE_BYTES)]


def test_fifty_threads_on_one_cold_range_make_one_request(source: Source) -> None:
    slices, source.hold_at = slices_of(source), 0
    with ThreadPoolExecutor(50) as threads:
        reads = [threads.submit(slices.read, _VERSION, 10, SLICE_BYTES - 10) for _ in range(50)]
        until(lambda: len(source.requested) > 0)
        source.release.set()

        assert {read.result()[0] == _BODY[10 : SLICE_BYTES - 10] for read in reads} == {True}
    assert len(source.requested) == 1


def test_a_slice_that_another_read_has_just_kept_is_not_requested_again(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = slices_of(source)
    join = slices._flights.join_all

    def join_late(*arguments: Any) -> Any:  # after a miss in memory
        monkeypatch.setattr(slices._flights, "join_all", join)
        read_and_keep(slices, 0, SLICE_BYTES)
        return join(*arguments)

    monkeypatch.setattr(slices._flights, "join_all", join_late)

    assert slices.read(_VERSION, 10, 20) == (_BODY[10:20], "memory")
    assert source.requested == [(0, SLICE_BYTES)]
    assert not slices._flights._next


def test_overlapping_reads_request_no_slice_twice(source: Source) -> None:
    slices, source.hold_at = slices_of(source), 0
    first, done = read_later(slices, 0, 4 * SLICE_BYTES)
    until(lambda: len(source.requested) == 1)
    second, done_later = read_later(slices, 2 * SLICE_BYTES, 6 * SLICE_BYTES)
    until(lambda: len(source.requested) == 2)
    source.release.set()

    assert (done.result(LIMIT_S), done_later.result(LIMIT_S)) == ("s3", "s3")
    assert (first, second) == (_BODY[: 4 * SLICE_BYTES], _BODY[2 * SLICE_BYTES : 6 * SLICE_BYTES])
    assert source.requested == [(0, 4 * SLICE_BYTES), (4 * SLICE_BYTES, 6 * SLICE_BYTES)]


def test_an_error_fails_all_reads_that_wait_for_the_slice_and_the_next_read_tries_again(source: Source) -> None:
    slices, source.hold_at = slices_of(source), 0
    source.errors.append(OriginUnavailableError("slow down"))
    _, done = read_later(slices, 0, 10)
    until(lambda: len(source.requested) == 1)
    _, done_later = read_later(slices, 20, 30)
    source.release.set()

    for each in (done, done_later):
        with pytest.raises(OriginUnavailableError, match="slow down"):
            each.result(LIMIT_S)
    assert slices.read(_VERSION, 0, 10) == (_BODY[:10], "s3")


def test_a_slice_that_arrived_before_an_error_is_kept(source: Source) -> None:
    slices, source.hold_at = slices_of(source), SLICE_BYTES
    _, done = read_later(slices, 0, 2 * SLICE_BYTES)
    until(lambda: slices.recall(_VERSION, 0, SLICE_BYTES) is not None)
    source.errors.append(OriginUnavailableError("broke off"))
    source.release.set()

    with pytest.raises(OriginUnavailableError):
        done.result(LIMIT_S)
    assert slices.recall(_VERSION, 0, SLICE_BYTES) == _BODY[:SLICE_BYTES]


def test_slices_of_another_version_are_never_read(source: Source) -> None:
    slices = slices_of(source, disk=MemoryDisk())
    slices.read(_VERSION, 0, 10)
    others = [
        Version("key", "hash", '"2"', len(_BODY)),
        Version("key", "hash", '"1"', len(_BODY) - 1),
        Version("other", "hash", '"1"', len(_BODY)),
    ]

    assert [slices.recall(each, 0, 10) for each in others] == [None] * 3
    assert [slices.read(each, 0, 10)[1] for each in others] == ["s3"] * 3


def test_names_tell_buckets_and_endpoints_apart() -> None:
    names = [SliceNames(endpoint, bucket) for endpoint in ("", "http://other") for bucket in ("bucket", "bucket-2")]

    assert len({each.slices(_VERSION, 0, 1)[0].name for each in names}) == 4


def test_a_slice_on_disk_is_read_by_the_next_process(source: Source) -> None:
    disk = MemoryDisk()
    first = slices_of(source, disk=disk)
    first.read(_VERSION, 0, 2 * SLICE_BYTES)
    until(lambda: len(disk.bodies) == 2)

    second = slices_of(source, disk=disk)
    assert second.read(_VERSION, 100, SLICE_BYTES + 100) == (_BODY[100 : SLICE_BYTES + 100], "disk")
    assert second.read(_VERSION, 0, SLICE_BYTES)[1] == "disk"
    assert second.read(_VERSION, 0, SLICE_BYTES)[1] == "memory"
    assert source.requested == [(0, 2 * SLICE_BYTES)]


@pytest.mark.parametrize("step", [SLICE_BYTES // 4, SLICE_BYTES // 3])
def test_a_scan_in_small_steps_does_not_displace_what_is_read_again(source: Source, step: int) -> None:
    slices = slices_of(source, memory_bytes=10 * SLICE_BYTES)
    for _ in range(3):
        read_and_keep(slices, 0, SLICE_BYTES)
    for start in range(SLICE_BYTES, len(_BODY), step):
        slices.read(_VERSION, start, min(start + step, len(_BODY)))

    assert slices.read(_VERSION, 0, SLICE_BYTES)[1] == "memory"


@pytest.mark.parametrize("memory_bytes", [0, 3 * SLICE_BYTES], ids=["disk", "memory"])
@given(st.lists(st.tuples(positions, positions), min_size=1, max_size=4), st.sets(st.integers(0, 20)))
def test_any_range_has_its_bytes_with_shared_tiers(
    memory_bytes: int, ranges: list[tuple[int, int]], shared_at: set[int]
) -> None:
    shared = Shared()
    for index, each in enumerate(_NAMES.slices(_VERSION, 0, len(_BODY))):
        if index in shared_at:
            shared.bodies[each.name] = _BODY[each.start : each.end]
    slices = slices_of(Source(), memory_bytes=memory_bytes, disk=None if memory_bytes else MemoryDisk(), shared=shared)
    for start, end in (sorted(each) for each in ranges):
        if start < end:
            assert slices.read(_VERSION, start, end)[0] == _BODY[start:end]
    slices.close()


def test_what_one_reader_loads_another_finds_in_a_shared_tier(source: Source) -> None:
    shared, disk = Shared(), MemoryDisk()
    slices_of(source, shared=shared).read(_VERSION, 0, 2 * SLICE_BYTES)
    until(lambda: len(shared.bodies) == 2)

    second = slices_of(source, shared=shared, disk=disk)

    assert second.read(_VERSION, 10, SLICE_BYTES + 10) == (_BODY[10 : SLICE_BYTES + 10], "redis")
    assert second.read(_VERSION, 0, 2 * SLICE_BYTES) == (_BODY[: 2 * SLICE_BYTES], "memory")
    until(lambda: len(disk.bodies) == 2)
    assert source.requested == [(0, 2 * SLICE_BYTES)]


def test_shared_tiers_are_asked_for_all_slices_of_a_read_at_once_and_s3_for_the_rest(source: Source) -> None:
    shared = Shared("express")
    third = _NAMES.slices(_VERSION, 2 * SLICE_BYTES, 3 * SLICE_BYTES)[0]
    shared.bodies[third.name] = _BODY[third.start : third.end]

    read = slices_of(source, shared=shared).read(_VERSION, 0, 5 * SLICE_BYTES)

    assert read == (_BODY[: 5 * SLICE_BYTES], "s3")
    assert [len(names) for names in shared.asked] == [5]
    assert source.requested == [(0, 2 * SLICE_BYTES), (3 * SLICE_BYTES, 5 * SLICE_BYTES)]


def test_fifty_threads_ask_a_shared_tier_once(source: Source) -> None:
    shared = Shared()
    shared.put({each.name: _BODY[each.start : each.end] for each in _NAMES.slices(_VERSION, 0, SLICE_BYTES)})
    shared.hold = threading.Event()
    slices = slices_of(source, shared=shared)
    with ThreadPoolExecutor(50) as threads:
        reads = [threads.submit(slices.read, _VERSION, 10, SLICE_BYTES - 10) for _ in range(50)]
        until(lambda: len(shared.asked) > 0)
        shared.hold.set()

        assert {read.result() for read in reads} <= {
            (_BODY[10 : SLICE_BYTES - 10], tier) for tier in ("redis", "memory")
        }
    assert len(shared.asked) == 1


def test_memory_and_disk_come_before_shared_tiers(source: Source) -> None:
    shared, disk = Shared(), MemoryDisk()
    slices_of(source, disk=disk).read(_VERSION, 0, SLICE_BYTES)
    until(lambda: len(disk.bodies) == 1)

    assert slices_of(source, disk=disk, shared=shared).read(_VERSION, 0, 10)[1] == "disk"
    assert shared.asked == []


def test_what_arrived_before_an_error_of_s3_is_shared(source: Source) -> None:
    shared = Shared()
    slices, source.hold_at = slices_of(source, shared=shared), SLICE_BYTES
    _, done = read_later(slices, 0, 2 * SLICE_BYTES)
    until(lambda: slices.recall(_VERSION, 0, SLICE_BYTES) is not None)
    source.errors.append(OriginUnavailableError("broke off"))
    source.release.set()

    with pytest.raises(OriginUnavailableError):
        done.result(LIMIT_S)
    until(lambda: len(shared.bodies) == 1)
    assert slices.read(_VERSION, 0, SLICE_BYTES)[1] == "memory"


def test_no_read_waits_for_stores_and_what_exceeds_the_waiting_ones_is_not_stored(source: Source) -> None:
    shared = Shared()
    shared.hold_stores = threading.Event()
    slices = slices_of(source, memory_bytes=8 * SLICE_BYTES, shared=shared)

    for _ in range(2):
        for index in range(20):
            assert read_and_keep(slices, index * SLICE_BYTES, (index + 1) * SLICE_BYTES) == "s3"

    assert len(source.requested) == 40
    slices._load_threads.shutdown()
    shared.hold_stores.set()
    slices._store_threads.shutdown()
    assert shared.stores == 16
    slices.close()


def test_a_client_that_is_closed_at_once_still_stores_what_it_loads(source: Source) -> None:
    shared = Shared()
    shared.hold_stores = threading.Event()
    slices, source.hold_at = slices_of(source, shared=shared), 100
    slices.read(_VERSION, 0, 100)  # its slice is still under way
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(slices.close)
        source.release.set()
        until(lambda: shared.stores)
        assert not closing.done()
        shared.hold_stores.set()
        closing.result(LIMIT_S)

    assert list(shared.bodies.values()) == [_BODY[:SLICE_BYTES]]


def test_a_reader_that_is_interrupted_in_a_shared_tier_holds_up_no_other(source: Source) -> None:
    class Interrupted(Shared):
        def fetch(self, *_: object) -> tuple[list[Slice], Shared]:
            raise KeyboardInterrupt

    interrupted = Interrupted()
    slices = slices_of(source, shared=interrupted)

    with pytest.raises(KeyboardInterrupt):
        slices.read(_VERSION, 0, 10)
    slices._shared = None
    assert slices.read(_VERSION, 0, 10) == (_BODY[:10], "s3")


def names_of(start: int, end: int) -> list[str]:
    return [each.name for each in _NAMES.slices(_VERSION, start, end)]


@pytest.mark.parametrize("memory_bytes", [0, 32 * SLICE_BYTES])
def test_without_a_wait_a_range_is_read_only_if_none_of_its_slices_needs_one(source: Source, memory_bytes: int) -> None:
    disk = MemoryDisk()
    start, end = SLICE_BYTES // 2, 3 * SLICE_BYTES
    for name, first in zip(names_of(0, end), range(0, end, SLICE_BYTES), strict=True):
        disk.bodies[name] = _BODY[first : first + SLICE_BYTES]
    disk.cold = {names_of(0, end)[-1]}
    slices = slices_of(source, memory_bytes=memory_bytes, disk=disk)

    cold = slices.read_cached(_VERSION, start, end, waits=False)
    counted = slices._counter.stats().tiers
    waited = slices.read_cached(_VERSION, start, end)
    disk.cold = set()

    assert (cold, counted, waited) == (None, {}, (_BODY[start:end], "disk"))
    again = slices.read_cached(_VERSION, start, end, waits=False)
    assert again == (_BODY[start:end], "disk")  # parts of slices at the ends, which memory does not keep


def test_memory_keeps_whole_slices_that_were_read_without_a_wait(source: Source) -> None:
    disk = MemoryDisk()
    first, second = names_of(0, 2 * SLICE_BYTES)
    disk.bodies = {first: _BODY[:SLICE_BYTES], second: _BODY[SLICE_BYTES : 2 * SLICE_BYTES]}
    slices = slices_of(source, disk=disk)

    read = slices.read_cached(_VERSION, 10, 2 * SLICE_BYTES, waits=False)
    disk.bodies.clear()

    assert read == (_BODY[10 : 2 * SLICE_BYTES], "disk")
    assert slices.recall(_VERSION, SLICE_BYTES, 2 * SLICE_BYTES) == _BODY[SLICE_BYTES : 2 * SLICE_BYTES]
    assert slices.recall(_VERSION, 0, SLICE_BYTES) is None


def test_the_expected_tier_is_the_slowest_that_a_read_needs(source: Source) -> None:
    disk = MemoryDisk()
    slices = slices_of(source, disk=disk)
    first, second = names_of(0, 2 * SLICE_BYTES)
    disk.bodies = {first: _BODY[:SLICE_BYTES], second: _BODY[SLICE_BYTES : 2 * SLICE_BYTES]}
    read_and_keep(slices, 0, SLICE_BYTES)
    counted = slices._counter.stats()

    expected = [slices.expected_tier(_VERSION, 0, end * SLICE_BYTES) for end in (1, 2, 3)]

    assert expected == ["memory", "disk", "s3"]
    assert slices.expected_tier(_VERSION, 0, 2 * SLICE_BYTES, asks_disk=False) == "s3"
    assert slices._counter.stats() == counted
