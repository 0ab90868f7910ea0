"""Slices at once: what the page cache has is read without a wait for the disk, and everything else is left alone."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burstcache.adapters.slice_files import SliceFiles
from support.clock import ManualClock
from support.file_times import await_tick

MAX_BYTES = 1 << 30
KB = 1 << 10
AT_ONCE = getattr(os, "RWF_NOWAIT", 0)
BODY = os.urandom(100 * KB)
LONG = os.urandom(1 << 20)


def name_of(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


NAME, LONG_NAME = name_of("short"), name_of("long")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slices"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


@pytest.fixture
def files(path: Path, clock: ManualClock) -> SliceFiles:
    """Return files in a directory that has not changed for long, with two slices that have been read."""
    files = SliceFiles(path, MAX_BYTES, clock=clock)
    files.write(NAME, BODY)
    files.write(LONG_NAME, LONG)
    if not is_supported(file_of(path)):
        pytest.skip("this file system has no RWF_NOWAIT")
    clock.now_s = file_of(path).stat().st_mtime + 5
    await_tick(path)
    assert (files.read(NAME), files.read(LONG_NAME)) == (BODY, LONG)
    return files


def is_supported(file: Path) -> bool:
    with file.open("rb") as opened:
        try:
            return bool(AT_ONCE) and os.preadv(opened.fileno(), [bytearray(1)], 0, AT_ONCE) == 1
        except OSError:
            return False


def file_of(path: Path, name: str = NAME) -> Path:
    (file,) = path.glob(f"??/{name}.slice")
    return file


def drop_pages(file: Path) -> None:
    """Drop a file from the page cache."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def at_once(files: SliceFiles, name: str = NAME) -> bytes | None:
    halves = files.read_halves(name, lambda _: 7, waits=False)
    return None if halves is None else b"".join(halves)


def part_at_once(files: SliceFiles, start: int, size: int, name: str = LONG_NAME, prefix: bytes = b"") -> bytes | None:
    into = bytearray(size)
    return bytes(into) if files.read_into(name, start, memoryview(into), prefix=prefix, waits=False) else None


def test_every_read_of_a_slice_in_the_page_cache_says_that_it_does_not_wait(
    files: SliceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags, preadv = list[int](), os.preadv

    def note(file: int, pieces: Sequence[Any], at: int, flag: int) -> int:
        flags.append(flag)
        return preadv(file, pieces, at, flag)

    monkeypatch.setattr(os, "preadv", note)
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("this read may wait"))
    monkeypatch.setattr(os, "utime", lambda *_: pytest.fail("this change may wait"))

    halves = files.read_halves(NAME, lambda _: 7, waits=False)
    part = part_at_once(files, 100_001, 300_000)
    begin = files.read_begin(LONG_NAME, lambda _: 9)

    assert (halves, part, begin) == ((BODY[:7], BODY[7:]), LONG[100_001:400_001], LONG[:9])
    assert set(flags) == {AT_ONCE}


def test_a_slice_that_was_dropped_from_the_page_cache_is_right_if_it_is_read(path: Path, files: SliceFiles) -> None:
    drop_pages(file_of(path, LONG_NAME))
    cold = part_at_once(files, 0, 300_000)  # a quick disk may have read it ahead by then

    assert cold in (None, LONG[:300_000])
    assert files.read(LONG_NAME) == LONG
    assert part_at_once(files, 0, 300_000) == LONG[:300_000]


@pytest.mark.parametrize("cached", [0, 1000, 600_000])
def test_a_file_of_which_only_the_begin_is_in_the_page_cache_is_left_to_a_read_that_waits(
    files: SliceFiles, monkeypatch: pytest.MonkeyPatch, cached: int
) -> None:
    preadv = os.preadv

    def read_cached(file: int, pieces: Sequence[Any], at: int, flags: int) -> int:
        left = cached - at if flags else 1 << 30
        if left <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return min(preadv(file, pieces, at, flags), left)

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", read_cached)
        cold = part_at_once(files, 0, len(LONG))

        assert files.read(LONG_NAME) == LONG
    assert cold is None
    assert part_at_once(files, 0, len(LONG)) == LONG


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_such_reads_is_asked_once(
    files: SliceFiles, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    asked, preadv = list[int](), os.preadv

    def refuse(file: int, pieces: Sequence[Any], at: int, flags: int) -> int:
        if flags:
            asked.append(flags)
            raise OSError(code, os.strerror(code))
        return preadv(file, pieces, at, flags)

    monkeypatch.setattr(os, "preadv", refuse)

    assert [at_once(files), at_once(files), part_at_once(files, 0, 10)] == [None] * 3
    assert len(asked) == 1
    assert files.read(NAME) == BODY


@pytest.mark.parametrize("place", [20, -1])  # in the header, and in the body
def test_a_flipped_byte_is_a_miss_and_the_read_that_waits_removes_the_file(
    path: Path, files: SliceFiles, place: int
) -> None:
    file = file_of(path)
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)

    damaged = at_once(files), part_at_once(files, len(BODY) - 10, 10, NAME)
    was_left = file.exists()

    assert damaged == (None, None)
    assert was_left
    assert files.read(NAME) is None
    assert not file.exists()


def test_another_process_first_reads_a_slice_with_a_wait(path: Path, files: SliceFiles, clock: ManualClock) -> None:
    other = SliceFiles(path, MAX_BYTES, clock=clock)

    assert at_once(other) is None
    assert other.read(NAME) == BODY
    assert at_once(other) == BODY


def test_a_slice_that_another_process_removes_or_replaces_is_seen(path: Path, files: SliceFiles) -> None:
    other = SliceFiles(path, MAX_BYTES)
    other.write(NAME, BODY[::-1], replaces=True)
    replaced = at_once(files)
    other.remove(NAME)

    assert replaced == BODY[::-1]
    assert at_once(files) is None


def test_a_minute_after_its_last_use_a_slice_is_read_with_a_wait_which_notes_the_use(
    path: Path, files: SliceFiles, clock: ManualClock
) -> None:
    file = file_of(path)
    clock.now_s = file.stat().st_mtime + 61
    assert at_once(files) is None

    used_s = file.stat().st_mtime
    files.read(NAME)

    assert file.stat().st_mtime > used_s
    clock.now_s = file.stat().st_mtime
    assert at_once(files) == BODY


def test_a_long_slice_is_read_at_once_in_parts_only(files: SliceFiles) -> None:
    assert at_once(files, LONG_NAME) is None
    assert part_at_once(files, 5, 1000, prefix=LONG[:5]) == LONG[5:1005]


def test_a_part_of_a_slice_that_begins_with_other_bytes_is_not_read(files: SliceFiles) -> None:
    other = bytes([LONG[0] ^ 1]) + LONG[1:5]

    assert part_at_once(files, 5, 1000, prefix=other) is None


@pytest.mark.parametrize("middle", [0, 5000, 1 << 32])
def test_a_begin_that_is_no_head_is_not_read(files: SliceFiles, middle: int) -> None:
    assert files.read_begin(LONG_NAME, lambda _: middle) is None


@pytest.mark.parametrize("what", ["root", "directory", "file"])
def test_what_becomes_a_symlink_is_not_followed(path: Path, tmp_path: Path, files: SliceFiles, what: str) -> None:
    place = {"root": path, "directory": file_of(path).parent, "file": file_of(path)}[what]
    place.rename(tmp_path / "target")
    place.symlink_to(tmp_path / "target")

    assert at_once(files) is None


@pytest.mark.parametrize("call", ["open", "stat", "fstat", "preadv"])
def test_a_call_that_fails_is_a_miss_and_leaves_no_descriptor(
    files: SliceFiles, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = len(os.listdir("/dev/fd"))

    def fail(*_: object, **__: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        failed = at_once(files)

    assert failed is None
    assert len(os.listdir("/dev/fd")) == before
    assert at_once(files) == BODY
