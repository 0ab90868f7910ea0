"""Windows of an object that one file on disk has: they are read in turn, and S3 sends what the file lacks."""

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

    def _run(self, call: Callable[[], bool]) -> asyncio.Future[bool]:
        self.in_thread += 1
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        done.set_result(call())
        return done

    def read(self, start: int = 0, end: int = len(_BODY), *, then: Callable[[], object] = lambda: None) -> list[Any]:
        """Return the windows, all of which are still in use. Call `then` after the first one."""

        async def work() -> list[Any]:
            windows = []
            async with aclosing(self.windows.read(Part(_VERSION, start, end, self.begin))) as reading:
                async for each in reading:
                    windows.append(memoryview(each))
                    if len(windows) == 1:
                        then()
            return windows

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
