"""Slice files: each read returns the bytes of the slice's name or nothing, whatever happens to the directory."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import logging
import os
import random
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from burstcache import logs
from burstcache.adapters import slice_directory, slice_files, slice_header
from burstcache.adapters.slice_files import SliceFiles
from burstcache.core.errors import InvalidSettingError
from burstcache.core.slices import SLICE_BYTES
from support.clock import ManualClock
from support.searches import search

MB = 1 << 20
LEAST_BYTES = 16 * MB  # one directory, so that all slices compete
BLOCK = 64 << 10
_SIZES = (0, 1, 300, 512, 513, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 200_000)
_CALLS = (
    "access", "close", "fchmod", "fstat", "fsync", "ftruncate", "link", "listdir", "lseek", "mkdir", "open", "pread",
    "preadv", "read", "rename", "scandir", "stat", "unlink", "utime", "write",
)  # fmt: skip


def name_of(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def body_of(name: str, size_bytes: int) -> bytes:
    return random.Random(name).randbytes(size_bytes)


def file_of(path: Path, name: str) -> Path:
    (file,) = path.glob(f"??/{name}.slice")
    return file


def used_bytes(path: Path) -> int:
    """Return the size of all slices, finished or not, in whole blocks of the disk."""
    return sum(-(-file.stat().st_size // 4096) * 4096 for file in path.glob("??/*.*"))


def flip(file: Path, at: int, bit: int = 0) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


def part_of(files: SliceFiles, name: str, start: int, stop: int) -> bytes | None:
    into = bytearray(stop - start)
    return bytes(into) if files.read_into(name, start, memoryview(into)) else None


@pytest.fixture(autouse=True)
def program_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log as a program does, which has logged nothing yet."""
    log = logs.OnceLog(logging.getLogger("burstcache"))
    for module in (slice_directory, slice_files):
        monkeypatch.setattr(module, "logger", lambda: log)


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace fsync, which waits for whatever else the machine writes. Returns the calls so far."""
    calls = list[int]()
    monkeypatch.setattr(os, "fsync", calls.append)
    return calls


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slices"


class Slices(RuleBasedStateMachine):
    """Several instances on one directory, against a dictionary. Nothing is evicted, so what is stored is read."""

    names = st.integers(0, 7)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "slices"
        self.instances = [SliceFiles(self.path, LEAST_BYTES)]
        self.stored = dict[str, bytes]()
        self.damaged = dict[str, set[int]]()  # blocks, -1: the header

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def any_instance(self, which: int) -> SliceFiles:
        return self.instances[which % len(self.instances)]

    def expect_lost(self, name: str) -> None:
        del self.stored[name], self.damaged[name]
        assert not list(self.path.glob(f"??/{name}.slice"))

    @rule(number=names, which=st.integers(0, 3), as_view=st.booleans())
    def write(self, number: int, which: int, as_view: bool) -> None:
        name = name_of(number)
        body = body_of(name, _SIZES[int(name[:8], 16) % len(_SIZES)])
        assert self.any_instance(which).write(name, memoryview(body) if as_view else body)
        if name not in self.damaged:
            self.stored[name] = body

    @rule(number=names, which=st.integers(0, 3))
    def read(self, number: int, which: int) -> None:
        name = name_of(number)
        body = self.any_instance(which).read(name)
        if name in self.damaged:
            assert body is None
            self.expect_lost(name)
        else:
            assert body == self.stored.get(name)

    @rule(number=names, which=st.integers(0, 3), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
    def read_part(self, number: int, which: int, ends: tuple[float, float]) -> None:
        name = name_of(number)
        body = self.stored.get(name, b"")
        start, stop = sorted(round(end * len(body)) for end in ends)
        part = part_of(self.any_instance(which), name, start, stop)
        touched = {-1, *range(start // BLOCK, -(-stop // BLOCK))}
        if name not in self.stored:
            assert part is None
        elif part is None:
            assert self.damaged[name] & touched
            self.expect_lost(name)
        else:
            assert part == body[start:stop]
            if start < stop:
                assert not self.damaged.get(name, set()) & touched

    @rule(number=names, which=st.integers(0, 3))
    def remove(self, number: int, which: int) -> None:
        name = name_of(number)
        self.any_instance(which).remove(name)
        self.stored.pop(name, None)
        self.damaged.pop(name, None)

    @rule(number=names, where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
    def flip(self, number: int, where: float, bit: int) -> None:
        name = name_of(number)
        if name in self.stored and name not in self.damaged:
            file, body = file_of(self.path, name), self.stored[name]
            header = file.stat().st_size - len(body)
            at = int(where * file.stat().st_size)
            flip(file, at, bit)
            self.damaged[name] = {(at - header) // BLOCK if at >= header else -1}

    @rule(max_bytes=st.sampled_from([LEAST_BYTES, 64 * MB, 1 << 40]))
    def open_another(self, max_bytes: int) -> None:
        self.instances.append(SliceFiles(self.path, max_bytes))

    @rule()
    def restart(self) -> None:
        self.instances = [SliceFiles(self.path, LEAST_BYTES)]

    @invariant()
    def every_slice_has_its_file(self) -> None:
        assert {file.name for file in self.path.glob("??/*.*")} == {f"{name}.slice" for name in self.stored}


TestSlices = Slices.TestCase
TestSlices.settings = search(100)


class SmallDirectory(RuleBasedStateMachine):
    """More slices than have room: bytes are right, and the size is within the bound."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "slices"
        self.files = SliceFiles(self.path, LEAST_BYTES)
        self.known = dict[str, bytes]()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(number=st.integers(0, 99), size_bytes=st.sampled_from([300, MB, 3 * MB, 8 * MB]))
    def write(self, number: int, size_bytes: int) -> None:
        name = name_of(number)
        body = self.known.setdefault(name, bytes([number]) * size_bytes)
        assert self.files.write(name, body)
        assert part_of(self.files, name, 0, len(body)) == body

    @rule(number=st.integers(0, 99))
    def read(self, number: int) -> None:
        name = name_of(number)
        assert self.files.read(name) in (None, self.known.get(name))

    @rule(number=st.integers(0, 99))
    def remove(self, number: int) -> None:
        self.files.remove(name_of(number))

    @rule()
    def lose_the_counter(self) -> None:
        (self.path / "00" / "blocks").unlink(missing_ok=True)

    @rule()
    def restart(self) -> None:
        self.files = SliceFiles(self.path, LEAST_BYTES)

    @invariant()
    def the_size_is_within_the_bound(self) -> None:
        assert used_bytes(self.path) <= LEAST_BYTES + LEAST_BYTES // 16 + 8 * MB  # a lost counter costs one step


TestSmallDirectory = pytest.mark.slow(SmallDirectory.TestCase)
TestSmallDirectory.settings = search(30)


# Reads, writes and parts


def test_slices_are_kept_over_a_restart_and_shared(path: Path) -> None:
    name, body = name_of(1), body_of("a", 300_000)

    is_stored = SliceFiles(path, LEAST_BYTES).write(name, body)

    assert is_stored
    assert SliceFiles(path, LEAST_BYTES).read(name) == body


def test_a_slice_is_present_from_its_write_until_its_removal(path: Path) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    is_there_before = files.has(name)
    files.write(name, b"body")
    is_there_then = SliceFiles(path, LEAST_BYTES).has(name)
    files.remove(name)

    assert (is_there_before, is_there_then, files.has(name)) == (False, True, False)


@pytest.mark.parametrize("start", [-1, 1, 301])
def test_a_part_beyond_the_body_is_not_read_and_the_slice_is_kept(path: Path, start: int) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, bytes(300))

    assert not files.read_into(name, start, memoryview(bytearray(300)))
    assert files.read(name) == bytes(300)


def test_a_part_is_read_into_memory_of_any_format(path: Path) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, memoryview(bytes(range(16))).cast("I"))
    into = memoryview(bytearray(8)).cast("H")

    assert files.read_into(name, 4, into)
    assert into.tobytes() == bytes(range(4, 12))


def test_a_part_reads_and_verifies_no_more_than_its_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, name, body = SliceFiles(path, LEAST_BYTES), name_of(1), body_of("a", MB)
    files.write(name, body)
    read, verified = list[int](), list[int]()
    preadv, crc32 = os.preadv, slice_header.crc32

    def count_read(file: int, pieces: Any, at: int, flags: int) -> int:
        read.append(sum(map(len, pieces)))
        return preadv(file, pieces, at, flags)

    def count_verified(data: Any, crc: int = 0) -> int:
        verified.append(len(data))
        return crc32(data, crc)

    monkeypatch.setattr(os, "preadv", count_read)
    monkeypatch.setattr(slice_header, "crc32", count_verified)

    part = part_of(files, name, BLOCK + 1, 3 * BLOCK - 1)

    assert part == body[BLOCK + 1 : 3 * BLOCK - 1]
    assert read == [2 * BLOCK]
    assert sum(verified) < 2 * BLOCK + 200


def test_a_present_slice_is_not_written_again(path: Path) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, bytes(300))
    inode = file_of(path, name).stat().st_ino

    assert files.write(name, bytes(300))
    assert file_of(path, name).stat().st_ino == inode


def test_a_slice_of_another_length_is_replaced(path: Path) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, bytes(300))
    os.truncate(file_of(path, name), 200)

    assert files.write(name, bytes(300))
    assert files.read(name) == bytes(300)


def test_the_largest_slice_is_stored_and_a_larger_one_is_not(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)

    assert files.write(name_of(1), bytes(slice_header.MAX_BODY_BYTES))
    assert not files.write(name_of(2), bytes(slice_header.MAX_BODY_BYTES + 1))
    assert files.read(name_of(1)) == bytes(slice_header.MAX_BODY_BYTES)


@pytest.mark.parametrize("name", ["", "a" * 31, "A" * 32, "../" + "a" * 29, "a" * 32 + "\n", "g" * 32])
def test_a_name_that_is_no_digest_is_a_mistake_of_the_caller(path: Path, name: str) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    calls: list[Callable[[], object]] = [
        lambda: files.read(name),
        lambda: files.read_into(name, 0, memoryview(bytearray(1))),
        lambda: files.write(name, b""),
        lambda: files.remove(name),
    ]

    for call in calls:
        with pytest.raises(ValueError, match="accepted: 32 hexadecimal digits in lower case"):
            call()


def test_the_header_is_the_same_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    spec = importlib.util.spec_from_file_location("header_without_isal", slice_header.__file__)
    assert spec is not None
    assert spec.loader is not None
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    body = memoryview(body_of("a", 200_000))

    assert without.crc32.__module__ == "zlib"
    assert without.encode_header(name_of(1), body) == slice_header.encode_header(name_of(1), body)


def test_only_the_format_waits_for_the_disk(path: Path, synced: list[int]) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    SliceFiles(path, LEAST_BYTES).write(name_of(2), bytes(300))

    assert len(synced) == 1


# Damage


@pytest.mark.parametrize("size_bytes", [0, 300])
def test_each_flipped_byte_loses_the_slice(path: Path, size_bytes: int) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, body_of(name, size_bytes))
    length = file_of(path, name).stat().st_size

    for at in range(length):
        files.write(name, body_of(name, size_bytes))
        flip(file_of(path, name), at, at % 8)

        assert files.read(name) is None
        assert list(path.glob("??/*.slice")) == []
    assert length == size_bytes + slice_header.header_bytes(size_bytes)


@pytest.mark.parametrize("size_bytes", [0, 300])
def test_a_file_cut_anywhere_or_extended_is_no_slice(path: Path, size_bytes: int) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, body_of(name, size_bytes))
    length = file_of(path, name).stat().st_size

    for to in (*range(length), length + 1):
        files.write(name, body_of(name, size_bytes))
        os.truncate(file_of(path, name), to)

        assert part_of(files, name, 0, size_bytes) is None
        assert list(path.glob("??/*.slice")) == []


def test_a_damaged_block_is_found_by_the_parts_that_touch_it(path: Path) -> None:
    files, name, body = SliceFiles(path, LEAST_BYTES), name_of(1), body_of("a", MB)
    files.write(name, body)
    flip(file_of(path, name), slice_header.header_bytes(MB) + 5 * BLOCK + 100)

    assert part_of(files, name, 0, 5 * BLOCK) == body[: 5 * BLOCK]
    assert part_of(files, name, 6 * BLOCK, MB) == body[6 * BLOCK :]
    assert part_of(files, name, 6 * BLOCK - 1, 6 * BLOCK) is None
    assert part_of(files, name, 0, 1) is None


def test_a_slice_under_another_name_is_none(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    file = file_of(path, name_of(1))
    shutil.copy(file, file.with_name(f"{name_of(2)}.slice"))

    assert files.read(name_of(2)) is None
    assert files.read(name_of(1)) == bytes(300)


def test_a_bad_sector_loses_the_slice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, bytes(300))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing(errno.EIO))
        body = files.read(name)

    assert body is None
    assert list(path.glob("??/*.slice")) == []


def test_damage_is_said_once_even_in_a_log_that_writes_every_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, lines = SliceFiles(path, LEAST_BYTES), list[tuple[str, str]]()
    log = SimpleNamespace(warning=lambda message, reason: lines.append((message, reason)))
    monkeypatch.setattr(slice_files, "logger", lambda: log)

    for number in range(5):
        files.write(name_of(number), bytes(300))
        flip(file_of(path, name_of(number)), 100)
        files.read(name_of(number))

    assert lines == [("a damaged slice is removed", f"{path}: a block is damaged")]


# Size


@pytest.mark.parametrize(
    ("max_bytes", "directories"),
    [(16 * MB, 1), (129 * MB, 1), (130 * MB, 2), (1 << 30, 8), (16 << 30, 128), (17 << 30, 256), (1 << 44, 256)],
)
def test_each_directory_has_room_for_256_slices(path: Path, max_bytes: int, directories: int) -> None:
    files = SliceFiles(path, max_bytes)

    names = [f"{first:02x}{'0' * 30}" for first in range(256)]
    assert all(files.write(name, b"") for name in names)

    assert len(list(path.glob("??"))) == directories
    assert (path / "format").read_text() == f"burstcache slices 1\n{directories} directories\n"
    assert directories == 1 or max_bytes // directories >= 256 * (SLICE_BYTES + 4096)


def test_the_first_process_decides_on_the_number_of_directories(path: Path) -> None:
    SliceFiles(path, 1 << 30).write(name_of(1), b"1")

    files = SliceFiles(path, 1 << 40)

    assert files.read(name_of(1)) == b"1"
    assert (path / "format").read_text() == "burstcache slices 1\n8 directories\n"


def age(file: Path, by_s: float) -> None:
    """Date a file back."""
    at_s = time.time() - by_s
    os.utime(file, (at_s, at_s))


def test_a_full_directory_loses_the_slices_that_were_used_least_recently(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    for number in range(15):
        files.write(name_of(number), bytes(MB))
        age(file_of(path, name_of(number)), by_s=1000 - number)
    read = {number for number in range(0, 15, 5) if files.read(name_of(number)) is not None}

    files.write(name_of(15), bytes(MB))

    kept = {number for number in range(16) if files.read(name_of(number)) is not None}
    assert read == {0, 5, 10}
    assert kept == {0, *range(3, 16)}


@pytest.mark.parametrize(
    ("age_s", "is_touched"), [(-1000, True), (-11, True), (-9, False), (0, False), (9, False), (11, True)]
)
def test_a_reader_touches_a_file_at_most_once_in_a_while(path: Path, age_s: float, is_touched: bool) -> None:
    clock, name = ManualClock(5000), name_of(1)
    files = SliceFiles(path, LEAST_BYTES, clock=clock)
    files.write(name, bytes(300))
    os.utime(file_of(path, name), (5000 - age_s, 5000 - age_s))

    part_of(files, name, 0, 300)

    assert (file_of(path, name).stat().st_mtime != 5000 - age_s) == is_touched


def test_a_file_from_the_future_is_evicted_first(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    for number in range(15):
        files.write(name_of(number), bytes(MB))
        age(file_of(path, name_of(number)), by_s=100 if number != 7 else -5000)

    files.write(name_of(15), bytes(MB))

    assert 7 not in {number for number in range(16) if files.read(name_of(number)) is not None}


def test_leftovers_count_until_they_are_removed(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(0), bytes(MB))
    leftover = path / "00" / f"{name_of(1)}.{'0' * 16}.part"
    leftover.write_bytes(bytes(12 * MB))
    age(leftover, by_s=30)

    for number in range(2, 12):
        files.write(name_of(number), bytes(MB))
    young = used_bytes(path), leftover.exists()
    age(leftover, by_s=61)
    for number in range(12, 22):
        files.write(name_of(number), bytes(MB))

    assert young[1]
    assert young[0] <= LEAST_BYTES
    assert not leftover.exists()


def test_leftovers_that_leave_no_room_keep_slices_out(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(0), bytes(MB))
    leftover = path / "00" / f"{name_of(1)}.{'0' * 16}.part"
    leftover.write_bytes(bytes(16 * MB))

    assert [files.write(name_of(number), bytes(MB)) for number in range(2, 4)] == [False, False]
    assert [file.name for file in path.glob("00/*.part")] == [leftover.name]


def test_a_lost_counter_is_corrected_before_the_bound_is_broken_by_much(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    for number in range(15):
        files.write(name_of(number), bytes(MB))
    (path / "00" / "blocks").unlink()

    for number in range(15, 40):
        files.write(name_of(number), bytes(MB))
        assert used_bytes(path) <= LEAST_BYTES + 2 * MB

    assert used_bytes(path) <= LEAST_BYTES


def test_many_small_slices_are_measured_seldom(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    measured = list[int]()
    scandir = os.scandir

    def measure(directory: int) -> Any:
        measured.append(directory)
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", measure)

    for number in range(1024):  # a quarter of the share, in blocks
        files.write(name_of(number), b"head")

    assert len(measured) == 4


def test_a_process_with_a_smaller_bound_evicts_to_its_own(path: Path) -> None:
    large, small = SliceFiles(path, 64 * MB), SliceFiles(path, LEAST_BYTES)
    for number in range(40):
        large.write(name_of(number), bytes(MB))

    small.write(name_of(40), bytes(MB))

    assert used_bytes(path) <= LEAST_BYTES
    assert small.read(name_of(40)) is not None


def test_a_slice_that_is_evicted_while_it_is_read_is_read_to_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, name, body = SliceFiles(path, LEAST_BYTES), name_of(1), body_of("a", MB)
    files.write(name, body)
    pread = os.pread

    def evict_and_read(*arguments: int) -> bytes:
        SliceFiles(path, LEAST_BYTES).remove(name)
        return pread(*arguments)

    monkeypatch.setattr(os, "pread", evict_and_read)

    assert files.read(name) == body
    assert files.read(name) is None


# Foreign directories, other versions


@contextmanager
def left_alone(path: Path) -> Iterator[None]:
    before = sorted((file, file.lstat().st_mode, file.is_file() and file.read_bytes()) for file in path.rglob("*"))
    yield
    after = sorted((file, file.lstat().st_mode, file.is_file() and file.read_bytes()) for file in path.rglob("*"))
    assert after == before


def test_an_older_version_is_emptied_and_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = SliceFiles(path, 1 << 30)
    for number in range(20):
        old.write(name_of(number), bytes(300))
    (path / "00" / "notes.txt").write_text("mine")
    (path / "other").mkdir()
    monkeypatch.setattr(slice_directory, "VERSION", 2)
    monkeypatch.setattr(slice_header, "VERSION", 2)

    files = [SliceFiles(path, LEAST_BYTES) for _ in range(2)]

    left = {str(file.relative_to(path)) for file in path.rglob("*")}
    assert left == {"format", "00", "00/notes.txt", "other"}
    assert caplog.messages == [f"emptied the slices of an older version (reason: {path} has version 1)"]
    assert (path / "format").read_text() == "burstcache slices 2\n1 directories\n"
    assert files[0].write(name_of(1), bytes(300))
    assert files[1].read(name_of(1)) == bytes(300)


def test_a_newer_version_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SliceFiles(path, LEAST_BYTES).write(name_of(1), bytes(300))
    (path / "format").write_text("burstcache slices 2\n1 directories\nand more\n")

    with left_alone(path), pytest.raises(InvalidSettingError, match="version 2 .*; accepted: version 1 "):
        SliceFiles(path, LEAST_BYTES)


def test_a_running_process_leaves_a_newer_version_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    (path / "new").write_text("burstcache slices 2\n1 directories\n")
    (path / "new").rename(path / "format")

    with left_alone(path):
        assert files.read(name_of(1)) is None
        assert not files.write(name_of(2), bytes(300))
        files.remove(name_of(1))
        files.read(name_of(1))

    assert [message.partition(" (")[0] for message in caplog.messages] == [
        "slices cannot be read",
        "slices cannot be stored",
        "slices cannot be removed",
    ]


@pytest.mark.parametrize("name", ["notes.txt", "ab", ".hidden", "format.part"])
def test_a_directory_with_foreign_files_is_left_alone(path: Path, name: str) -> None:
    path.mkdir(mode=0o755)
    (path / name).write_text("mine")

    with left_alone(path), pytest.raises(InvalidSettingError, match=f"a foreign file, '{name}'; accepted: an empty"):
        SliceFiles(path, LEAST_BYTES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_directory_that_another_process_has_just_begun_to_use_is_not_foreign(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listdir = os.listdir

    def begin_and_list(root: int) -> list[str]:
        monkeypatch.setattr(os, "listdir", listdir)
        SliceFiles(path, LEAST_BYTES).write(name_of(1), b"1")
        return listdir(root)

    monkeypatch.setattr(os, "listdir", begin_and_list)

    assert SliceFiles(path, 1 << 30).read(name_of(1)) == b"1"


@pytest.mark.parametrize(
    "text", ["", "tar\n", "burstcache slices one\n", "burstcache slices 1\n3 directories\n", "burstcache slices 1\n"]
)
def test_a_foreign_format_file_is_left_alone(path: Path, text: str) -> None:
    path.mkdir()
    (path / "format").write_text(text)

    with left_alone(path), pytest.raises(InvalidSettingError, match="accepted: "):
        SliceFiles(path, LEAST_BYTES)


def test_foreign_files_that_come_later_are_neither_counted_nor_removed(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(0), bytes(MB))
    foreign = ["notes.txt", f"{name_of(1)}.txt", f"{name_of(1)}.part", f"x{name_of(1)}.slice", f"{name_of(1)}.slice.gz"]
    for name in foreign:
        (path / "00" / name).write_bytes(bytes(4 * MB))
        age(path / "00" / name, by_s=1000)

    for number in range(1, 40):
        assert files.write(name_of(number), bytes(MB))

    assert {file.name for file in (path / "00").iterdir()} >= set(foreign)
    assert sum(files.read(name_of(number)) is not None for number in range(40)) >= 14


# Settings that are refused


def test_the_bound_must_have_room_for_the_largest_slices(path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="max_bytes is 16777215; accepted: at least 16777216"):
        SliceFiles(path, LEAST_BYTES - 1)

    assert not path.exists()


def test_the_bound_must_go_with_the_number_of_directories(path: Path) -> None:
    SliceFiles(path, 1 << 30)

    with pytest.raises(InvalidSettingError, match="max_bytes is 16777216; accepted: at least 134217728"):
        SliceFiles(path, LEAST_BYTES)


def test_a_file_is_no_directory(path: Path) -> None:
    path.write_text("mine")

    with pytest.raises(InvalidSettingError, match="is not a directory; accepted: a directory"):
        SliceFiles(path, LEAST_BYTES)


def test_a_directory_below_a_file_cannot_be_used(path: Path) -> None:
    path.write_text("mine")

    with pytest.raises(InvalidSettingError, match="cannot be used: Not a directory"):
        SliceFiles(path / "slices", LEAST_BYTES)


def test_the_directory_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SliceFiles(path, LEAST_BYTES)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(InvalidSettingError, match=f"belongs to user {owner}; accepted: .* of user {owner + 1}"):
        SliceFiles(path, LEAST_BYTES)


def test_the_file_of_another_user_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert files.read(name_of(1)) is None


def test_a_directory_that_cannot_be_written_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SliceFiles(path, LEAST_BYTES)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)

    with pytest.raises(InvalidSettingError, match="is not writable; accepted: "):
        SliceFiles(path, LEAST_BYTES)


def test_a_system_without_safe_calls_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_directory, "_IS_SAFE", False)

    with pytest.raises(InvalidSettingError, match="need a POSIX system"):
        SliceFiles(path, LEAST_BYTES)


# Symlinks and modes


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_symlink_as_root_is_refused(path: Path, tmp_path: Path, is_dangling: bool) -> None:
    target = tmp_path / "target"
    if not is_dangling:
        target.mkdir()
    path.symlink_to(target)

    with pytest.raises(InvalidSettingError, match="is a symlink; accepted: a directory"):
        SliceFiles(f"{path}/", LEAST_BYTES)
    assert not target.exists() or not list(target.iterdir())


def test_a_root_that_becomes_a_symlink_is_not_followed(path: Path, tmp_path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    path.rename(tmp_path / "target")
    path.symlink_to(tmp_path / "target")

    with left_alone(tmp_path / "target"):
        assert files.read(name_of(1)) is None
        assert not files.write(name_of(2), bytes(300))
        files.remove(name_of(1))


def test_a_directory_that_becomes_a_symlink_is_not_followed(path: Path, tmp_path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    (path / "00").rename(tmp_path / "target")
    (path / "00").symlink_to(tmp_path / "target")

    with left_alone(tmp_path / "target"):
        assert files.read(name_of(1)) is None
        assert not files.write(name_of(2), bytes(300))
        files.remove(name_of(1))
        (path / "format").write_text("burstcache slices 1\n1 directories\n")
        assert not files.write(name_of(2), bytes(300))


def test_an_older_version_is_emptied_without_following_symlinks(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SliceFiles(path, LEAST_BYTES).write(name_of(1), bytes(300))
    shutil.copytree(path / "00", tmp_path / "target")
    (path / "01").symlink_to(tmp_path / "target")
    monkeypatch.setattr(slice_directory, "VERSION", 2)

    with left_alone(tmp_path / "target"):
        SliceFiles(path, LEAST_BYTES)


def test_a_file_that_is_a_symlink_is_replaced_and_not_followed(path: Path, tmp_path: Path) -> None:
    files, name = SliceFiles(path, LEAST_BYTES), name_of(1)
    files.write(name, bytes(300))
    file, target = file_of(path, name), tmp_path / "target"
    file.rename(target)

    with left_alone(tmp_path / "target"):
        file.symlink_to(target)
        read = files.read(name)
        is_left = file.is_symlink()
        file.symlink_to(target)
        is_stored = files.write(name, bytes(300))

    assert (read, is_left, is_stored) == (None, False, True)
    assert not file.is_symlink()
    assert target.stat().st_size > 300


@pytest.mark.parametrize("name", ["format", "00/blocks"])
def test_a_file_of_ours_that_is_a_symlink_is_not_followed(path: Path, tmp_path: Path, name: str) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    target = tmp_path / "target"
    (path / name).rename(target)
    (path / name).symlink_to(target)
    content = target.read_bytes()

    is_stored = files.write(name_of(2), bytes(300))

    assert not is_stored
    assert target.read_bytes() == content


def test_a_fifo_or_directory_in_place_of_a_file_stops_nobody(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    os.mkfifo(path / "00" / f"{name_of(2)}.slice")
    (path / "00" / f"{name_of(3)}.slice").mkdir()

    assert files.read(name_of(2)) is None
    assert files.read(name_of(3)) is None
    assert files.write(name_of(2), bytes(300))
    assert not files.write(name_of(3), bytes(300))
    assert all(files.write(name_of(number), bytes(MB)) for number in range(10, 50))


def test_nobody_else_has_access(path: Path) -> None:
    mask = os.umask(0)
    try:
        files = SliceFiles(path, LEAST_BYTES)
        files.write(name_of(1), bytes(300))
    finally:
        os.umask(mask)

    modes = {(stat.S_ISDIR(file.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) for file in path.rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_directory_that_is_open_to_others_is_closed(path: Path, is_ours: bool) -> None:
    path.mkdir()
    if is_ours:
        SliceFiles(path, LEAST_BYTES)
    path.chmod(0o775)

    SliceFiles(path, LEAST_BYTES)

    assert stat.S_IMODE(path.stat().st_mode) == 0o700


# Failures of the disk


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fail


class FailingCall:
    """Makes the n-th system call of a block fail, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.made = 0

    @contextmanager
    def at(self, number: int, code: int) -> Iterator[None]:
        self.made = 0
        with self._patch.context() as patch:
            for name in _CALLS:
                patch.setattr(os, name, self._counted(getattr(os, name), number, code))
            yield

    def _counted(self, call: Callable[..., Any], number: int, code: int) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.made += 1
            if self.made == number:
                if call.__name__ == "close":
                    call(*arguments)
                raise OSError(code, os.strerror(code))
            return call(*arguments, **options)

        return counted


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENOENT, errno.ESTALE])
def test_whichever_call_of_a_write_fails_no_error_comes_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, "all"})
    failing_call, number, stored = FailingCall(monkeypatch), 0, list[bool]()
    before = open_descriptors()

    while not failing_call.made < number:
        number += 1
        shutil.rmtree(path, ignore_errors=True)
        files = SliceFiles(path, LEAST_BYTES)
        files.write(name_of(1), bytes(300))
        with suppress(FileNotFoundError):
            os.truncate(path / "00" / "blocks", 4096)  # the share is said to be used up, so the write measures it
        with failing_call.at(number, code):
            stored.append(files.write(name_of(2), bytes(BLOCK)))
        assert files.read(name_of(2)) in ([bytes(BLOCK)] if stored[-1] else [bytes(BLOCK), None])
        assert files.write(name_of(2), bytes(BLOCK))
        assert files.read(name_of(2)) == bytes(BLOCK)
        assert files.read(name_of(1)) in (bytes(300), None)

    assert number > 20
    assert stored[-1]
    assert False in stored
    assert open_descriptors() == before


@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO, errno.EMFILE, errno.ENOENT, errno.ESTALE])
def test_whichever_call_of_a_read_fails_no_error_comes_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    files = SliceFiles(path, LEAST_BYTES, clock=ManualClock(1))
    failing_call, number, read = FailingCall(monkeypatch), 0, list[Any]()
    before = open_descriptors()

    while not failing_call.made < number:
        number += 1
        files.write(name_of(1), bytes(BLOCK))
        os.utime(file_of(path, name_of(1)), (100, 100))
        with failing_call.at(number, code):
            read += [files.read(name_of(1)), part_of(files, name_of(1), 0, BLOCK)]

    assert number > 20
    assert {bytes(BLOCK), None} == set(read)
    assert open_descriptors() == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_at_the_start_is_used_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing(code))
        files = SliceFiles(path, LEAST_BYTES)
        during = [(files.write(name_of(1), bytes(300)), files.read(name_of(1))) for _ in range(3)]

    assert during == [(False, None)] * 3
    assert caplog.messages == [f"slices cannot be stored (reason: {path}: {os.strerror(code)})"]
    assert files.write(name_of(1), bytes(300))
    assert files.read(name_of(1)) == bytes(300)


def test_an_older_version_on_a_disk_that_is_full_at_the_start_is_replaced_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SliceFiles(path, LEAST_BYTES).write(name_of(1), b"old")
    monkeypatch.setattr(slice_directory, "VERSION", 2)
    monkeypatch.setattr(slice_header, "VERSION", 2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing(errno.ENOSPC))
        files = SliceFiles(path, LEAST_BYTES)
        during = files.write(name_of(1), b"new"), files.read(name_of(1))

    assert during == (False, None)
    assert files.write(name_of(1), b"new")
    assert files.read(name_of(1)) == b"new"


def test_other_failures_at_the_start_are_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "mkdir", failing(errno.EROFS))

    with pytest.raises(InvalidSettingError, match="cannot be used: Read-only file system"):
        SliceFiles(path, LEAST_BYTES)


def test_short_writes_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, name, body, write = SliceFiles(path, LEAST_BYTES), name_of(1), body_of("a", 5000), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))

    assert files.write(name, body)
    assert files.read(name) == body


@pytest.mark.parametrize("what", ["slices", "slices/00", "slices/format"])
def test_a_deleted_directory_is_made_again(path: Path, what: str) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    target = path.parent / what
    (shutil.rmtree if target.is_dir() else os.unlink)(target)
    if what == "slices/format":
        shutil.rmtree(path / "00")

    assert files.read(name_of(1)) is None
    files.remove(name_of(1))
    assert files.write(name_of(1), bytes(300))
    assert files.read(name_of(1)) == bytes(300)
    assert SliceFiles(path, LEAST_BYTES).read(name_of(1)) == bytes(300)


def test_a_directory_that_another_process_made_again_is_used_as_it_is(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    shutil.rmtree(path)
    others = SliceFiles(path, 17 << 30)
    names = [f"{first:02x}{'0' * 30}" for first in range(0, 256, 16)]
    for name in names:
        others.write(name, bytes(300))

    assert [files.read(name) for name in names] == [bytes(300)] * 16
    assert files.write(name_of(1), bytes(300))
    assert others.read(name_of(1)) == bytes(300)
    assert not files.write(name_of(2), bytes(MB))  # its share of each of 256 directories is 64 KiB


def test_a_directory_without_its_format_is_left_alone_until_it_has_one(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), bytes(300))
    (path / "format").rename(path.parent / "format")

    with left_alone(path):
        during = files.write(name_of(2), bytes(300)), files.read(name_of(1))
    (path.parent / "format").rename(path / "format")

    assert during == (False, None)
    assert files.read(name_of(1)) == bytes(300)


def test_a_relative_path_stays_where_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    files = SliceFiles("slices", LEAST_BYTES)
    monkeypatch.chdir("/")

    assert files.write(name_of(1), bytes(300))
    assert file_of(path, name_of(1)).exists()


def test_a_process_keeps_no_descriptor(path: Path) -> None:
    before = open_descriptors()
    files = SliceFiles(path, LEAST_BYTES)
    for number in range(40):
        files.write(name_of(number), bytes(MB))
        files.read(name_of(number))
        part_of(files, name_of(number), 5, 10)

    assert open_descriptors() == before
