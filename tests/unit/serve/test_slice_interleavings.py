"""Interleavings of readers of slices: of one slice, of overlapping ranges, around a write, with failing leaders.

All of them run on a virtual clock, on which each part of an answer takes a random time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from burstcache.adapters.single_flight import LEFT_AFTER_S
from burstcache.core.errors import OriginUnavailableError, PreconditionFailedError
from burstcache.core.slices import SliceNames, Version
from burstcache.serve.scan_resistant import ScanResistantCache
from burstcache.serve.slice_memory import SliceMemory
from burstcache.serve.slices import Slices
from support.memory_s3 import body_of
from support.part_sources import MemoryPartSource
from support.searches import seeds
from support.virtual_time import VirtualClock

_SLICE = 1 << 10
_SIZE_BYTES = 9 * _SLICE + 100
_READERS = 12
_HUNG_S = 10 * LEFT_AFTER_S


class InterruptedError(BaseException):
    """The reading thread is interrupted."""


def version_of(number: int) -> Version:
    return Version("key", "hash", f'"{number}"', _SIZE_BYTES)


class Source(MemoryPartSource):
    """S3, whose object changes, and whose answers may fail, hang or be interrupted after some of their parts."""

    def __init__(
        self, clock: VirtualClock, draw: random.Random, faults: Sequence[str] = (), first_fault: str = ""
    ) -> None:
        super().__init__()
        self.clock = clock
        self.draw = draw
        self.faults = faults
        self.first_fault = first_fault  # of the first answer
        self.number = 1
        self.under_way: list[tuple[str, int, int]] = []
        self.overlapped = False

    def read(self, version: Version, start: int, into: memoryview, *stops: Any) -> None:
        asked = version.etag, start, start + len(into)
        self.overlapped |= any(
            each[0] == asked[0] and asked[1] < each[2] and each[1] < asked[2] for each in self.under_way
        )
        self.under_way.append(asked)
        try:
            super().read(version, start, into, *stops)
        finally:
            self.under_way.remove(asked)

    def body(self, version: Version) -> bytes:
        self.clock.sleep(self.draw.uniform(0.01, 0.05))
        if fault := self.first_fault:
            self.first_fault = ""
            self.clock.sleep(0.1)
            self._fail(fault)
        if version.etag != version_of(self.number).etag:
            raise PreconditionFailedError("overwritten")
        return body_of(self.number, _SIZE_BYTES)

    def await_bytes(self, end: int) -> None:
        self.clock.sleep(self.draw.uniform(0, 0.02))
        if self.faults and self.draw.random() < 0.15:
            self._fail(self.draw.choice(self.faults))

    def _fail(self, fault: str) -> None:
        if fault == "hangs":
            self.clock.sleep(_HUNG_S)
        elif fault == "interrupted":
            raise InterruptedError
        else:
            raise OriginUnavailableError("slow down")


class Threads:
    """The threads of a virtual clock in the place of an executor's."""

    clock: VirtualClock

    def __init__(self, *_: Any, **__: Any) -> None:
        """Ignore the number of threads."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self.clock.start(call, *arguments)

    def shutdown(self, **_: Any) -> None:
        """Threads end by themselves."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    clock = VirtualClock()
    threads = type("_Threads", (Threads,), {"clock": clock})
    monkeypatch.setattr("burstcache.serve.slices.ThreadPoolExecutor", threads)
    monkeypatch.setattr("burstcache.core.slices.SLICE_BYTES", _SLICE)
    return clock


def slices_of(source: Source, *, memory_bytes: int = 1 << 20) -> Slices:
    stand_in: Any = source
    memory = SliceMemory(ScanResistantCache(memory_bytes))
    return Slices(stand_in, SliceNames("", "bucket"), source.clock, memory=memory)


def read(slices: Slices, source: Source, number: int, start: int, end: int) -> bytes:
    """Return a part of a version, as a participant of the virtual clock."""
    into = bytearray(end - start)
    source.clock.wait_for(slices.begin(version_of(number), start, memoryview(into)))
    return bytes(into)


def range_in(draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(_SIZE_BYTES)
    return start, min(_SIZE_BYTES, start + draw.choice((1, 100, _SLICE, 4 * _SLICE, _SIZE_BYTES)))


def check_ended(slices: Slices) -> None:
    """Check that each flight ends, once the rest of its slice has arrived."""
    slices._clock.sleep(3 * _HUNG_S)
    assert not slices._flights._under_way
    assert not slices._flights._next


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("faults", [(), ("fails",), ("fails", "hangs", "interrupted")], ids=["", "fails", "all"])
def test_readers_get_the_bytes_of_their_version_or_an_error(
    clock: VirtualClock, seed: int, faults: Sequence[str]
) -> None:
    draw = random.Random(seed)
    source = Source(clock, draw, faults)
    slices = slices_of(source, memory_bytes=draw.choice((3 * _SLICE, 1 << 20)))
    errors = set[type[BaseException]]()

    def read_some() -> None:
        for _ in range(4):
            clock.sleep(draw.uniform(0, 0.2))
            number, (start, end) = source.number, range_in(draw)
            clock.sleep(draw.choice((0, 0.01)))  # the head may be of an older version by now
            try:
                found = read(slices, source, number, start, end)
            except (OriginUnavailableError, PreconditionFailedError, InterruptedError) as error:
                errors.add(type(error))
            else:
                assert found == body_of(number, _SIZE_BYTES)[start:end]

    def write() -> None:
        for _ in range(3):
            clock.sleep(draw.uniform(0.05, 0.3))
            source.number += 1

    parts = [clock.start(part) for part in (write, *[read_some] * _READERS)]
    for part in parts:
        clock.wait_for(part)

    allowed = {PreconditionFailedError, *([OriginUnavailableError] if faults else [])}
    assert errors <= (allowed | {InterruptedError} if "interrupted" in faults else allowed)
    check_ended(slices)


@pytest.mark.parametrize("seed", seeds(40))
def test_no_slice_is_requested_twice_whoever_wants_parts_of_it(clock: VirtualClock, seed: int) -> None:
    draw = random.Random(seed)
    source = Source(clock, draw)
    slices = slices_of(source)

    def read_some() -> None:
        for _ in range(3):
            clock.sleep(draw.uniform(0, 0.05))
            start, end = range_in(draw)
            assert read(slices, source, 1, start, end) == body_of(1, _SIZE_BYTES)[start:end]

    parts = [clock.start(read_some) for _ in range(_READERS)]
    for part in parts:
        clock.wait_for(part)

    assert not source.overlapped
    assert sum(end - start for start, end in source.requested) <= _SIZE_BYTES
    check_ended(slices)


@pytest.mark.parametrize("fault", ["hangs", "interrupted"])
def test_readers_that_wait_for_a_lost_leader_read_the_slice_themselves(clock: VirtualClock, fault: str) -> None:
    source = Source(clock, random.Random(1), first_fault=fault)
    slices = slices_of(source)
    leader = clock.start(read, slices, source, 1, 0, 10)
    clock.sleep(0.05)
    began_s = clock.monotonic_s()
    followers = [clock.start(read, slices, source, 1, 20 * number, 20 * number + 10) for number in range(5)]

    for number, follower in enumerate(followers):
        assert clock.wait_for(follower) == body_of(1, _SIZE_BYTES)[20 * number : 20 * number + 10]
    assert clock.monotonic_s() - began_s < (LEFT_AFTER_S + 1 if fault == "hangs" else 1)
    if fault == "interrupted":
        with pytest.raises(InterruptedError):
            clock.wait_for(leader)
    else:
        clock.wait_for(leader)
    check_ended(slices)


def test_a_reader_that_gives_up_before_its_turn_reads_nothing(clock: VirtualClock) -> None:
    source = Source(clock, random.Random(1))
    slices, into = slices_of(source), bytearray(10)
    reading = slices.begin(version_of(1), 0, memoryview(into))
    was_cancelled = reading.cancel()
    clock.sleep(1)

    assert bool(source.requested) is not was_cancelled
    assert read(slices, source, 1, 0, 10) == body_of(1, _SIZE_BYTES)[:10]
    check_ended(slices)
