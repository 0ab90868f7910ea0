"""Buffers: large pages change nothing that is in memory, and long memory returns to the system with its last view."""

from __future__ import annotations

import io
import mmap
from concurrent.futures import ThreadPoolExecutor

import pytest

from burstcache.serve.buffers import RecycledBuffers, RecycledCopies, blank, in_large_pages, mapped


@pytest.mark.parametrize("size_bytes", [0, 1, 8 * 1024 * 1024, 20_000_001])
def test_memory_holds_what_it_held_whether_or_not_it_lies_in_large_pages(size_bytes: int) -> None:
    body = io.BytesIO(b"x" * size_bytes)
    with body.getbuffer() as memory:
        in_large_pages(memory[size_bytes // 3 :])
        in_large_pages(memory)

    assert body.getvalue() == b"x" * size_bytes  # and nothing holds on to the buffer


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("size_bytes", [0, 1, 100_000, 256 * 1024, 1_000_001])
def test_a_copy_has_the_bytes_and_cannot_be_written(size_bytes: int) -> None:
    original = bytearray(b"x" * size_bytes)

    copy = RecycledCopies().copy(memoryview(original))
    original[:] = b"y" * size_bytes

    assert bytes(copy) == b"x" * size_bytes
    assert copy.readonly
    assert bytes(blank(size_bytes)) == bytes(mapped(size_bytes)) == bytes(size_bytes)


def test_memory_returns_to_the_system_while_other_copies_live() -> None:
    body = memoryview(b"x" * (256 * 1024))
    memory = RecycledCopies()
    copies = [memory.copy(body) for _ in range(400)]  # 100 MiB
    before_bytes = resident_bytes()

    del copies[::2]

    assert before_bytes - resident_bytes() > 45 << 20


def test_a_process_with_too_many_mappings_copies_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)

    assert bytes(RecycledCopies().copy(memoryview(b"x" * 300_000))) == b"x" * 300_000


def test_a_copy_takes_the_memory_of_a_dropped_one_unless_it_is_seen() -> None:
    memory = RecycledCopies()
    first, seen, other = (memory.copy(memoryview(letter * 256 * 1024)) for letter in (b"a", b"b", b"c"))
    place, part = first.obj, seen[7:9]
    for each in (first, seen, other):
        memory.recycle(each)
    del first, seen, other, each

    copies = [memory.copy(memoryview(letter * 256 * 1024)) for letter in (b"d", b"e")]

    assert copies[0].obj is place
    assert [bytes(copy[:2]) for copy in copies] == [b"dd", b"ee"]
    assert bytes(part) == b"bb"
    assert bytes(memory.copy(memoryview(b"f" * 300_000))) == b"f" * 300_000  # of another length than the last spare


def test_threads_that_share_recycled_memory_see_their_own_bytes() -> None:
    memory = RecycledCopies()

    def churn(number: int) -> None:
        body = memoryview(bytes([number]) * (128 * 1024))
        for _ in range(300):
            copy = memory.copy(body)
            view = copy[1000:2000]
            memory.recycle(copy)
            del copy
            assert bytes(view) == bytes([number]) * 1000

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(churn, range(8)))


def test_recycled_memory_is_taken_again_once_nobody_has_a_view_of_it() -> None:
    buffers = RecycledBuffers()
    first = buffers.take(1 << 20)
    memory = first.obj
    view = first[:10]
    buffers.recycle(first)
    del first

    other = buffers.take(1_000_000)
    is_other = other.obj is not memory
    del view

    assert is_other
    assert len(other) == 1_000_000
    assert buffers.take(1 << 20).obj is memory
