"""Buffers: large pages change nothing that is in memory, and long memory returns to the system with its last view."""

from __future__ import annotations

import io
import mmap

import pytest

from burstcache.serve.buffers import blank, copied, in_large_pages


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

    copy = copied(memoryview(original))
    original[:] = b"y" * size_bytes

    assert bytes(copy) == b"x" * size_bytes
    assert copy.readonly
    assert bytes(blank(size_bytes)) == bytes(size_bytes)


def test_memory_returns_to_the_system_while_other_copies_live() -> None:
    body = memoryview(b"x" * (256 * 1024))
    copies = [copied(body) for _ in range(400)]  # 100 MiB
    before_bytes = resident_bytes()

    del copies[::2]

    assert before_bytes - resident_bytes() > 45 << 20


def test_a_process_with_too_many_mappings_copies_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)

    assert bytes(copied(memoryview(b"x" * 300_000))) == b"x" * 300_000
