"""Windows of objects on disk: they are read in turn, S3 sends what the disk lacks, and the tier is the slowest one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from burstcache.core.slices import SliceNames, Version
from burstcache.gateway.part_windows import PartWindows
from burstcache.serve.large_objects import Part
from burstcache.serve.slices import Slices
from burstcache.web.entry import Entry, body_offset, encode
from support.clock import ManualClock
from support.memory_disk import MemoryDisk
from support.part_sources import MemoryPartSource

_BODY = os.urandom(5_000_000)
_VERSION = Version("key", "hash", '"1"', len(_BODY))
_NAMES = SliceNames("", "bucket")
_NAME = _NAMES.head("key")


class _Source(MemoryPartSource):
    """S3, which has the version."""

    def body(self, version: Version) -> bytes:
        return _BODY


class _Rig:
    """Windows over a disk that has the object in one file, and the calls that were left to threads."""

    def __init__(self) -> None:
        source: Any = _Source()
        self.disk, self.source, self.in_thread = MemoryDisk(), source, 0
        self.disk.bodies[_NAME] = self.stored('"1"')
        self.begin = self.disk.bodies[_NAME][: body_offset(self.disk.bodies[_NAME])]
        self.windows = PartWindows(Slices(source, _NAMES, ManualClock(), disk=self.disk), self._run)

    def stored(self, etag: str, body: bytes = _BODY) -> bytes:
        return encode(Entry({"etag": etag, "content-length": str(len(body))}, body))

    def _run(self, call: Callable[[], str | None]) -> asyncio.Future[str | None]:
        self.in_thread += 1
        done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        done.set_result(call())
        return done

    def read(self, start: int = 0, end: int = len(_BODY), *, then: Callable[[], object] = lambda: None) -> list[Any]:
        """Return the windows, all of which are still in use. Call `then` after the first one."""

        async def work() -> list[Any]:
            windows = []
            async with aclosing(self.windows.read(Part(_VERSION, start, end, self.begin))) as reading:
                async for each, _ in reading:
                    windows.append(memoryview(each))
                    if len(windows) == 1:
                        then()
            return windows

        return asyncio.run(work())

    def tier(self, start: int, end: int) -> str:
        """Return the tier of a part of a large object, as its response states it with the first window."""

        async def work() -> str:
            part = Part(_VERSION, start, end)
            async with aclosing(self.windows.read(part)) as reading:
                return await self.windows.tier(part, await anext(reading))

        return asyncio.run(work())


def test_no_window_waits_for_a_thread_and_none_changes_while_it_is_in_use() -> None:
    rig = _Rig()

    windows = rig.read()

    assert b"".join(windows) == _BODY
    assert len(windows) > 3
    assert rig.in_thread == 0


def test_memory_of_sent_windows_is_used_again_with_the_right_bytes() -> None:
    rig = _Rig()

    for _ in range(3):
        assert b"".join(rig.read()) == _BODY
    assert b"".join(rig.read(1_234_567, 2_345_678)) == _BODY[1_234_567:2_345_678]


def test_a_short_range_is_one_window() -> None:
    assert [bytes(each) for each in _Rig().read(7, 500_000)] == [_BODY[7:500_000]]


def test_threads_wait_for_a_file_that_the_page_cache_lacks() -> None:
    rig = _Rig()
    rig.disk.cold.add(_NAME)

    windows = rig.read()

    assert b"".join(windows) == _BODY
    assert rig.in_thread == len(windows)


@pytest.mark.parametrize("other", [None, '"2"'])
def test_s3_sends_the_rest_of_the_version_if_the_file_goes_or_gets_another_one(other: str | None) -> None:
    rig = _Rig()

    def change() -> None:
        if other is None:
            del rig.disk.bodies[_NAME]
        else:
            rig.disk.bodies[_NAME] = rig.stored(other, bytes(len(_BODY)))

    assert b"".join(rig.read(then=change)) == _BODY


@pytest.mark.parametrize("end", [300_000, len(_BODY)], ids=["one window", "several"])
def test_the_tier_of_a_part_is_the_slowest_that_any_of_its_bytes_needs(end: int) -> None:
    rig = _Rig()
    slices = _NAMES.slices(_VERSION, 0, end)
    rig.disk.bodies = {each.name: _BODY[each.start : each.end] for each in slices}

    from_disk = rig.tier(0, end)
    del rig.disk.bodies[slices[-1].name]

    assert (from_disk, rig.tier(0, end)) == ("disk", "s3")
