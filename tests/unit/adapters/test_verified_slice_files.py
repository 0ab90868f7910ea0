"""Slice files by their path: a directory that has been verified and has not changed since costs fewer system calls."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burstcache.adapters import slice_directory, slice_header
from burstcache.adapters.slice_files import SliceFiles
from support.clock import ManualClock
from support.file_times import await_tick

MAX_BYTES = 1 << 30  # 8 directories
BODY = os.urandom(200_000)
NAME = hashlib.md5(b"1", usedforsecurity=False).hexdigest()
_CALLS = ("close", "fchmod", "fstat", "open", "pread", "preadv", "read", "stat", "unlink", "utime")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slices"


@pytest.fixture
def files(path: Path) -> SliceFiles:
    """Return files in a directory that has not changed for long, with one slice that has been read."""
    clock = ManualClock(0)
    files = SliceFiles(path, MAX_BYTES, clock=clock)
    files.write(NAME, BODY)
    clock.now_s = file_of(path).stat().st_mtime + 5
    await_tick(path)
    assert files.read(NAME) == BODY
    assert len(calls_of(lambda: files.read(NAME))) == 6
    return files


def calls_of(work: Callable[[], object], fails_at: int = 0, code: int = 0) -> list[str]:
    """Return the system calls of some work, of which one may fail."""
    made = list[str]()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            if len(made) == fails_at:
                if name == "close":
                    call(*arguments)
                raise OSError(code, os.strerror(code))
            return call(*arguments, **options)

        return count

    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            patch.setattr(os, name, counted(name, getattr(os, name)))
        work()
    return made


def part_of(files: SliceFiles, start: int, stop: int) -> bytes | None:
    into = bytearray(stop - start)
    return bytes(into) if files.read_into(NAME, start, memoryview(into)) else None


def file_of(path: Path) -> Path:
    (file,) = path.glob(f"??/{NAME}.slice")
    return file


def test_a_read_takes_six_system_calls_and_an_absent_slice_two(path: Path, files: SliceFiles) -> None:
    absent = NAME[:2] + "0" * 30

    assert calls_of(lambda: part_of(files, 70_000, 140_000)) == ["open", "stat", "fstat", "pread", "preadv", "close"]
    assert calls_of(lambda: files.read(absent)) == ["open", "stat"]
    assert files.read(absent) is None


def test_a_directory_that_has_just_changed_is_verified_at_each_read(path: Path) -> None:
    files = SliceFiles(path, MAX_BYTES)
    files.write(NAME, BODY)

    calls = [len(calls_of(lambda: files.read(NAME))) for _ in range(3)]

    assert min(calls) > 6


def test_a_slice_that_another_process_writes_or_removes_is_seen(path: Path, files: SliceFiles) -> None:
    SliceFiles(path, MAX_BYTES).remove(NAME)
    removed = files.read(NAME)
    SliceFiles(path, MAX_BYTES).write(NAME, BODY)

    assert removed is None
    assert files.read(NAME) == BODY


def test_a_damaged_slice_is_removed(path: Path, files: SliceFiles) -> None:
    file = file_of(path)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    assert part_of(files, 0, 100) == BODY[:100]
    assert part_of(files, 150_000, 200_000) is None
    assert not file.exists()


@pytest.mark.parametrize("what", ["root", "directory", "file"])
def test_what_becomes_a_symlink_is_not_followed(path: Path, tmp_path: Path, files: SliceFiles, what: str) -> None:
    place = {"root": path, "directory": file_of(path).parent, "file": file_of(path)}[what]
    place.rename(tmp_path / "target")
    place.symlink_to(tmp_path / "target")

    assert files.read(NAME) is None
    assert part_of(files, 0, 100) is None


def test_a_directory_that_has_long_been_a_symlink_is_not_followed(path: Path, tmp_path: Path) -> None:
    clock, other = ManualClock(0), ("00" if NAME >= "8" else "ff") + "0" * 30
    files = SliceFiles(path, MAX_BYTES, clock=clock)
    files.write(NAME, BODY)
    files.write(other, BODY)
    (place,) = path.glob(f"??/{other}.slice")
    place.parent.rename(tmp_path / "target")
    place.parent.symlink_to(tmp_path / "target")
    clock.now_s = path.stat().st_mtime + 5

    assert [files.read(NAME), files.read(other), files.read(other)] == [BODY, None, None]


def test_a_newer_version_is_left_alone(path: Path, files: SliceFiles) -> None:
    (path / "new").write_text("burstcache slices 2\n8 directories\n")
    (path / "new").rename(path / "format")
    before = file_of(path).read_bytes()

    assert files.read(NAME) is None
    assert files.read(NAME) is None
    assert file_of(path).read_bytes() == before


def test_an_emptied_older_version_is_not_read(path: Path, files: SliceFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_directory, "VERSION", 2)
    monkeypatch.setattr(slice_header, "VERSION", 2)
    newer = SliceFiles(path, MAX_BYTES)
    newer.write(NAME, bytes(300))
    monkeypatch.undo()

    assert files.read(NAME) is None
    assert file_of(path).exists()


def test_a_directory_that_another_process_made_again_is_read(path: Path, files: SliceFiles) -> None:
    shutil.rmtree(path)
    SliceFiles(path, 17 << 30).write(NAME, bytes(300))

    assert files.read(NAME) == bytes(300)


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ENOENT, errno.ESTALE])
def test_whichever_call_fails_no_error_comes_out_and_no_descriptor_stays(files: SliceFiles, code: int) -> None:
    before = len(os.listdir("/dev/fd"))
    read = list[Any]()

    for number in range(1, 7):
        files.write(NAME, BODY)
        part_of(files, 0, 100)
        calls_of(lambda: read.append(part_of(files, 0, 100)), number, code)

    assert set(read) <= {BODY[:100], None}
    assert part_of(files, 0, 100) == BODY[:100]
    assert len(os.listdir("/dev/fd")) == before
