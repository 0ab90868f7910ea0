"""An object as a file: it reads as any file does, holds few slices, and reads no slice twice in order."""

from __future__ import annotations

import asyncio
import io
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.client import streams
from burstcache.client.async_client import AsyncObjectFile
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import PreconditionFailedError
from burstcache.core.pool import slices
from burstcache.serve.parallel_parts import AT_ONCE
from support.waiting import LIMIT_S

_SLICE = 100
_BODY = random.Random(7).randbytes(1_234) + b"\nshort\n\nlines at the end"


@pytest.fixture(autouse=True, scope="module")
def small_slices() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_BYTES", _SLICE)
        patch.setattr(streams, "SLICE_BYTES", _SLICE)
        patch.setattr(streams, "SOUGHT_BYTES", 30)
        yield


@dataclass
class Source:
    """Slices of an object, which arrive when they are waited for; `asked` are their extents."""

    asked: list[tuple[int, int]] = field(default_factory=list)
    fails_from: int = len(_BODY)

    def begin(self, start: int, into: memoryview) -> Future[str]:
        end = start + len(into)
        assert start // _SLICE == (end - 1) // _SLICE
        self.asked.append((start, end))
        read: Future[str] = Future()
        if end > self.fails_from:
            read.set_exception(PreconditionFailedError("another version"))
        else:
            into[:] = _BODY[start:end]
            read.set_result("pool")
        return read

    def open(self) -> ObjectFile:
        return ObjectFile(self.begin, 0, len(_BODY))


_STEPS = st.one_of(
    st.tuples(st.just("seek"), st.integers(0, len(_BODY) + 50)),
    st.tuples(st.just("read"), st.sampled_from([0, 1, 7, 40, 99, 100, 150, 250, 700, -1])),
    st.tuples(st.just("readinto"), st.sampled_from([0, 1, 90, 100, 101, 350])),
    st.tuples(st.just("readline"), st.just(-1)),
)


@given(st.lists(_STEPS, max_size=12))
def test_it_reads_as_a_file_in_memory_does(steps: list[tuple[str, int]]) -> None:
    file, reference = Source().open(), io.BytesIO(_BODY)

    for step, number in steps:
        if step == "readinto":
            rooms = bytearray(number), bytearray(number)
            assert file.readinto(rooms[0]) == reference.readinto(rooms[1])
            assert rooms[0] == rooms[1]
        else:
            assert getattr(file, step)(number) == getattr(reference, step)(number)
        assert file.tell() == reference.tell()


@pytest.mark.parametrize("size", [1, 30, 100, 130, 1_000, -1])
def test_a_reader_in_order_reads_every_slice_once_and_whole(size: int) -> None:
    source = Source()
    file = source.open()

    while file.read(size):
        pass

    assert source.asked == [(start, min(start + _SLICE, len(_BODY))) for start in range(0, len(_BODY), _SLICE)]


def test_slices_are_read_ahead_and_few_of_them_held() -> None:
    source = Source()
    file = source.open()
    ahead, held = [], []

    for start in range(0, len(_BODY), 10):
        file.read(10)
        ahead.append(len(source.asked) - start // _SLICE)
        held.append(len(file._parts))

    assert max(ahead) == max(held) == AT_ONCE


def test_the_parts_are_the_object_in_order() -> None:
    parts = list(Source().open().parts())

    assert b"".join(parts) == _BODY
    assert {len(part) for part in parts[:-1]} == {_SLICE}


def test_a_reader_that_seeks_gets_little_more_than_it_asks_for() -> None:
    source = Source()
    file = source.open()

    for position in (1_210, 505, 95):
        file.seek(position)
        file.read(3)

    assert source.asked == [(1_210, 1_240), (505, 535), (95, 100)]


def test_a_range_across_two_slices_is_no_sequential_read() -> None:
    source = Source()
    file = source.open()

    file.seek(95)
    file.read(20)
    assert source.asked == [(95, 100), (100, 130)]

    file.read(20)
    assert source.asked[2:] == [(130, 200), (200, 300)]


def test_a_part_of_an_object_begins_and_ends_with_it() -> None:
    source = Source()
    file = ObjectFile(source.begin, 150, 420)

    file.seek(-20, io.SEEK_END)
    end = file.read()
    file.seek(0)

    assert (file.read(), end) == (_BODY[150:420], _BODY[400:420])


def test_what_cannot_be_read_is_an_error_when_it_is_reached_and_not_before() -> None:
    file = Source(fails_from=500).open()

    assert file.read(500) == _BODY[:500]
    with pytest.raises(PreconditionFailedError):
        file.read(1)


@pytest.mark.parametrize("size", [250, 1_000])  # slice by slice, and several slices at once
def test_a_read_that_fails_is_repeated_from_where_it_began(size: int) -> None:
    source = Source(fails_from=500)
    file = source.open()
    before = file.read(350)

    with pytest.raises(PreconditionFailedError):
        file.read(size)
    source.fails_from = len(_BODY)

    assert file.tell() == 350
    assert before + file.read() == _BODY


def test_a_cancelled_read_is_as_if_it_had_never_begun() -> None:
    source, late = Source(), threading.Event()
    is_asked = threading.Event()

    def begin(start: int, into: memoryview) -> Future[str]:
        is_asked.set()
        assert late.wait(LIMIT_S)
        return source.begin(start, into)

    async def read(threads: ThreadPoolExecutor) -> tuple[bytes, bytes]:
        opened: Any = ObjectFile(begin, 0, len(_BODY))
        opened.head = None
        client: Any = threads
        file = AsyncObjectFile(client, opened)
        cancelled = asyncio.create_task(file.read(30))
        await asyncio.to_thread(is_asked.wait, LIMIT_S)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        late.set()
        return await file.read(20), b"".join([bytes(part) async for part in file.parts()])

    with ThreadPoolExecutor(1) as threads:  # one thread: the cancelled read ends before the next begins
        assert asyncio.run(read(threads)) == (_BODY[:20], _BODY[20:])


def test_lines_and_text_are_read_by_the_standard_library() -> None:
    file: Any = Source().open()
    text = io.TextIOWrapper(file, "latin-1", newline="")

    assert list(Source().open()) == list(io.BytesIO(_BODY))
    assert text.read() == _BODY.decode("latin-1")


def test_a_closed_file_is_not_read() -> None:
    file = Source().open()
    file.close()

    with pytest.raises(ValueError, match="closed file"):
        file.read(1)


def test_a_seek_before_the_start_is_refused() -> None:
    with pytest.raises(ValueError, match="seek to byte -1; accepted: 0 or more"):
        Source().open().seek(-1)


def test_a_seek_from_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="whence=7; accepted: SEEK_SET"):
        Source().open().seek(0, 7)


@pytest.mark.parametrize(
    "call",
    [
        lambda file: file.read(),
        lambda file: file.read(0),
        lambda file: file.read1(),
        lambda file: file.readinto(bytearray(0)),
        lambda file: file.readline(),
        lambda file: file.peek(),
        lambda file: file.seek(0),
        lambda file: file.tell(),
        lambda file: list(file.parts()),
    ],
)
@pytest.mark.parametrize("read_bytes", [0, 3])
def test_a_closed_file_refuses_every_call(call: Callable[[ObjectFile], object], read_bytes: int) -> None:
    file = ObjectFile.of(b"abc", "s3")
    file.read(read_bytes)
    file.close()

    with pytest.raises(ValueError, match="closed file"):
        call(file)


@pytest.mark.parametrize("wrong", ["1", 1.5, b"1"])
def test_positions_and_sizes_are_whole_numbers(wrong: Any) -> None:
    file = ObjectFile.of(b"abc", "s3")

    for call in (file.seek, file.read):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            call(wrong)
    assert file.read() == b"abc"
