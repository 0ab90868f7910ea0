"""The pool over S3, on one event loop: S3 is a function here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from burstcache import logs
from burstcache.core.errors import PreconditionFailedError
from burstcache.core.pool.admission import SliceAdmission
from burstcache.core.pool.slices import CodedSlice, Redundancy
from burstcache.core.slices import Version
from burstcache.pool.heartbeat import HubCounters
from burstcache.pool.read_through import Fetch, ReadThrough
from support.clock import ManualClock
from support.pool import LocalPool, running_pool
from support.waiting import LIMIT_S, eventually

_SIZE = 300_000
_BODY = random.Random(1).randbytes(_SIZE)
_VERSION = Version("key", "hash", '"etag"', _SIZE)


@dataclass
class S3:
    """S3 as read ranges (start and length). It answers once `may_answer` is set."""

    asked: list[tuple[int, int]] = field(default_factory=list)
    may_answer: threading.Event = field(default_factory=threading.Event)
    fails: bool = False

    def fetch(self, start: int, into: memoryview) -> None:
        self.asked.append((start, len(into)))
        assert self.may_answer.wait(LIMIT_S)
        if self.fails:
            raise PreconditionFailedError("another version")
        into[:] = _BODY[start : start + len(into)]


@dataclass
class Rig:
    pool: LocalPool
    through: ReadThrough
    s3: S3
    codes: list[Redundancy]
    clock: ManualClock
    seen: HubCounters

    async def read(self, start: int = 0, end: int = _SIZE) -> bool:
        """Read a part, check it, and return whether it came from the pool."""
        into = memoryview(bytearray(end - start))
        is_pooled = await self.through.read(_VERSION, start, into, self.s3.fetch)
        assert into == _BODY[start:end]
        return is_pooled


@contextlib.asynccontextmanager
async def rig(*, limit_s: float = 60, pays_within_s: float = 1_000) -> AsyncIterator[Rig]:
    clock = ManualClock()
    codes = [Redundancy(4, 2)]
    with ThreadPoolExecutor(8) as threads:
        async with running_pool(6, limit_s=limit_s) as pool:
            heat = SliceAdmission(pays_within_s=pays_within_s)
            seen, s3 = HubCounters(), S3()
            through = ReadThrough(pool.reader, lambda: codes, heat, threads, clock, seen)
            s3.may_answer.set()
            yield Rig(pool, through, s3, codes, clock, seen)
            await through.settle()


def test_a_range_of_a_slice_that_enters_is_cut_from_the_whole_one() -> None:
    async def scenario() -> None:
        async with rig() as it:
            assert [await it.read(10, 20), await it.read(15, 40)] == [False, False]
            await it.through.settle()
            assert await it.read(5, 25)
            assert it.s3.asked == [(10, 10), (0, _SIZE)]

    asyncio.run(scenario())


def test_readers_that_come_while_a_slice_is_loaded_share_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[CodedSlice] = []
    loaded = ReadThrough._shared_load

    def counted(through: ReadThrough, slice_: CodedSlice, fetch: Fetch) -> asyncio.Task[memoryview]:
        came.append(slice_)
        return loaded(through, slice_, fetch)

    async def scenario() -> None:
        async with rig() as it:
            await it.read(0, 1)
            it.s3.may_answer.clear()
            monkeypatch.setattr(ReadThrough, "_shared_load", counted)
            reads = [asyncio.create_task(it.read(start, start + 100)) for start in range(0, 500, 100)]
            await eventually(lambda: len(came) == len(reads))  # all have looked, and none is late for the load
            it.s3.may_answer.set()
            await asyncio.gather(*reads)
            assert it.s3.asked == [(0, 1), (0, _SIZE)]

    asyncio.run(scenario())


def test_a_load_that_fails_fails_its_readers_and_the_next_tries_again() -> None:
    async def scenario() -> None:
        async with rig() as it:
            await it.read(0, 1)
            it.s3.fails = True
            with pytest.raises(PreconditionFailedError):
                await it.read()
            it.s3.fails = False
            assert not await it.read()
            await it.through.settle()
            assert await it.read()

    asyncio.run(scenario())


def test_what_was_written_with_a_former_code_is_found() -> None:
    async def scenario() -> None:
        async with rig() as it:
            await it.read()
            await it.read()
            await it.through.settle()
            it.codes.insert(0, Redundancy(3, 2))
            assert await it.read()
            assert len(it.s3.asked) == 2

    asyncio.run(scenario())


def test_members_that_are_silent_are_named_once_and_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.pool.read_through.logger", lambda: log)

    async def scenario() -> None:
        async with rig(limit_s=0.05) as it:
            for link in it.pool.hub.members.values():
                link.transport.pause_reading()
            assert not await it.read(0, 10)
            for link in it.pool.hub.members.values():
                link.end()  # who asks them now gets no answer at all
            assert not await it.read(0, 10)
            assert it.s3.asked == [(0, 10)] * 2

    asyncio.run(scenario())

    (line,) = caplog.messages
    assert "members did not send a slice within 0.05 s" in line


def test_a_reader_does_not_wait_until_its_slice_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with rig() as it:
            may_store = asyncio.Event()

            async def store_later(*_: object) -> bool:
                return await may_store.wait()

            monkeypatch.setattr(it.pool.reader, "write_slice", store_later)
            assert [await it.read(), await it.read()] == [False, False]
            may_store.set()

    asyncio.run(scenario())


def test_while_others_enter_a_slice_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.pool.read_through._MAX_ENTERING", 0)

    async def scenario() -> None:
        async with rig() as it:
            assert [await it.read(0, 10) for _ in range(3)] == [False] * 3
            assert it.s3.asked == [(0, 10)] * 3

    asyncio.run(scenario())


def test_an_object_that_nobody_has_brought_is_not_looked_for_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.core.pool.slices.SLICE_BYTES", 10_000)

    async def scenario() -> tuple[int, int]:
        async with rig() as it:
            looked_for = []
            read_slice = it.pool.reader.read_slice

            async def note(slice_: CodedSlice, into: memoryview) -> bool:
                looked_for.append(slice_.start)
                return await read_slice(slice_, into)

            monkeypatch.setattr(it.pool.reader, "read_slice", note)
            for start in range(0, _SIZE, 10_000):
                await it.read(start, start + 10_000)
            once = len(looked_for)
            await it.read(_SIZE - 10_000, _SIZE)
            return once, len(looked_for)

    assert asyncio.run(scenario()) == (4, 5)


def test_where_the_pool_does_not_pay_nothing_enters() -> None:
    async def scenario() -> None:
        async with rig(pays_within_s=0) as it:
            for _ in range(3):
                assert not await it.read(0, 10)
            assert it.s3.asked == [(0, 10)] * 3
            assert not any(map(len, it.pool.stores.values()))

    asyncio.run(scenario())


@pytest.mark.parametrize(("pays_within_s", "is_wanted"), [(1_000, True), (0, False)])
def test_a_read_without_members_wants_the_pool_where_it_pays(pays_within_s: float, is_wanted: bool) -> None:
    async def scenario() -> None:
        async with rig(pays_within_s=pays_within_s) as it:
            it.pool.reader.members = ()
            assert not await it.read(0, 10)
            assert it.seen.has_demand is is_wanted

    asyncio.run(scenario())
