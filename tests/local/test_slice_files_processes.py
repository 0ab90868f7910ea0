"""Slice files of several processes: killed at each step, stopped, forked, and on a disk that is full or read-only."""

from __future__ import annotations

import errno
import logging
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from burstcache import logs
from burstcache.adapters import slice_directory, slice_files, slice_header
from burstcache.adapters.slice_files import SliceFiles
from burstcache.core.errors import InvalidSettingError
from support.mounts import small_file_system
from support.waiting import LIMIT_S

# Python 3.12 and later warn of forks while threads run, which is tested here.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")]

MB = 1 << 20
LEAST_BYTES = 16 * MB
LARGEST_BYTES = 3 * MB
_KILLS = 200
_CALLS = (
    "access", "close", "fchmod", "fstat", "fsync", "ftruncate", "link", "listdir", "lseek", "mkdir", "open", "read",
    "rename", "rmdir", "scandir", "stat", "unlink", "write",
)  # fmt: skip


@pytest.fixture(autouse=True)
def program_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log as a program does, which has logged nothing yet."""
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr(slice_files, "logger", lambda: log)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace fsync, which waits for whatever else the machine writes."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slices"


def name_of(number: int) -> str:
    return random.Random(number).randbytes(16).hex()


def body_of(name: str) -> bytes:
    """Return a body whose every 16 bytes tell its slice."""
    size_bytes = (300, 64 << 10, MB, LARGEST_BYTES)[int(name[0], 16) % 4]
    return (bytes.fromhex(name) * (size_bytes // 16 + 1))[:size_bytes]


def used_bytes(path: Path) -> int:
    """Return the space that slices take on the disk. A file without room is empty but for its length."""
    return sum(file.stat().st_blocks * 512 for file in path.glob("??/*.*"))


def fork(work: Callable[[], object]) -> int:
    """Run work in a child process. Its exit code is 0 if the work ends."""
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Return the exit code of a child, negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Kills


def die_at(step: int) -> None:
    """Kill this process at a system call. A write at that point is torn."""
    made = 0

    def dying(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def made_or_dead(*arguments: Any, **options: Any) -> Any:
            nonlocal made
            made += 1
            if made == step:
                if name == "write":
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return made_or_dead

    for name in _CALLS:
        setattr(os, name, dying(name, getattr(os, name)))


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run work in a child that is killed at a step. Return False if the work has fewer steps."""

    def run() -> None:
        die_at(step)
        work()

    code = ended(fork(run))
    assert code in (0, -signal.SIGKILL)
    return code != 0


def date_back(path: Path) -> None:
    """Make leftovers old enough to be removed."""
    for leftover in path.glob("??/*.part"):
        os.utime(leftover, (time.time() - 61,) * 2)


def test_a_writer_that_is_killed_at_any_step_leaves_whole_slices_within_the_bound(path: Path) -> None:
    names = [name_of(number) for number in range(_KILLS)]
    files, step, kills, rounds = SliceFiles(path, LEAST_BYTES), 1, 0, 0
    for name in names[:8]:
        files.write(name, body_of(name))

    while kills < _KILLS:
        name, before = names[kills], set(path.glob("00/*.slice"))
        os.truncate(path / "00" / "blocks", LEAST_BYTES // 4096)  # the next writer measures the directory

        is_killed = killed_at(step, partial(files.write, name, body_of(name)))

        assert used_bytes(path) <= LEAST_BYTES + LARGEST_BYTES + 4096
        after = set(path.glob("00/*.slice"))
        assert len(after - before) <= 1
        assert all(files.read(file.stem) == body_of(file.stem) for file in after)
        kills += is_killed
        rounds += not is_killed
        step = step + 1 if is_killed else 1
        if kills % 3 == 0:
            date_back(path)

    date_back(path)
    os.truncate(path / "00" / "blocks", LEAST_BYTES // 4096)
    assert files.write(name_of(-1), body_of(name_of(-1)))
    assert rounds > 3
    assert list(path.glob("00/*.part")) == []
    assert used_bytes(path) <= LEAST_BYTES


def test_a_process_that_is_killed_while_it_creates_the_directory_leaves_it_usable(path: Path) -> None:
    step, body = 1, body_of(name_of(1))

    def begin() -> None:
        SliceFiles(path, LEAST_BYTES).write(name_of(1), body)

    while killed_at(step, begin):
        files = SliceFiles(path, LEAST_BYTES)
        assert files.read(name_of(1)) in (None, body)
        assert files.write(name_of(1), body)
        assert files.read(name_of(1)) == body
        shutil.rmtree(path)
        step += 1

    assert step > 20


def test_a_process_that_is_killed_while_it_empties_an_older_version_leaves_it_usable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_killed, step = True, 0

    while is_killed:
        step += 1
        old = SliceFiles(path, 200 * MB)
        assert all(old.write(name_of(number), b"old") for number in range(4))
        with monkeypatch.context() as patch:
            patch.setattr(slice_directory, "VERSION", 2)
            patch.setattr(slice_header, "VERSION", 2)
            is_killed = killed_at(step, lambda: SliceFiles(path, LEAST_BYTES))
            files = SliceFiles(path, LEAST_BYTES)
            assert [files.read(name_of(number)) for number in range(4)] == [None] * 4
            assert files.write(name_of(1), b"new")
            assert files.read(name_of(1)) == b"new"
        shutil.rmtree(path)

    assert step > 20


# Processes at once


def work_on(path: Path, seed: int, operations: int, report: Callable[[], object]) -> None:
    """Read and write at random. Any wrong byte, error or log line ends the process."""
    files, draw = SliceFiles(path, LEAST_BYTES), random.Random(seed)
    for number in range(operations):
        name = name_of(draw.randrange(40))
        body = body_of(name)
        match draw.randrange(4):
            case 0:
                assert files.write(name, body)
            case 1:
                assert files.read(name) in (None, body)
            case 2:
                start = draw.randrange(len(body))
                into = bytearray(draw.randrange(len(body) - start + 1))
                assert not files.read_into(name, start, memoryview(into)) or into == body[start : start + len(into)]
            case 3 if draw.random() < 0.1:
                files.remove(name)
        if number % 20 == 0:
            report()


def in_two_threads(path: Path, seed: int, report: Callable[[], object]) -> None:
    failed = list[BaseException]()

    def work(seed: int) -> None:
        try:
            work_on(path, seed, 200, report)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(2 * seed + number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_processes_at_once_read_no_wrong_byte_and_stay_within_the_bound(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_files, "logger", lambda: pytest.fail("there is nothing to log"))
    reports, to_parent = os.pipe()
    report = partial(os.write, to_parent, b".")
    children = [fork(partial(in_two_threads, path, seed, report)) for seed in range(2)]
    os.close(to_parent)
    measured = list[int]()

    # Nothing moves while the size is measured.
    while os.read(reports, 1):
        stopped = [child for child in children if stops(child)]
        if path.exists():
            measured.append(used_bytes(path))
        for child in stopped:
            os.kill(child, signal.SIGCONT)
    os.close(reports)

    assert [ended(child) for child in children] == [0, 0]
    assert len(measured) > 20
    assert max(measured) > LEAST_BYTES * 3 // 4
    assert max(measured) <= LEAST_BYTES + 4 * (LARGEST_BYTES + 4096)
    assert list(path.glob("??/*.part")) == []


def stops(child: int) -> bool:
    """Stop a child, and return True once it has stopped. False: it has ended, and can still be waited for."""
    os.kill(child, signal.SIGSTOP)
    return os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED  # type: ignore[union-attr]


def test_processes_that_begin_at_once_agree_on_the_number_of_directories(path: Path) -> None:
    bounds = [200 * MB, 1 << 30, 17 << 30]

    for _ in range(20):
        go, gate = os.pipe()

        def begin(max_bytes: int, go: int = go) -> None:
            os.read(go, 1)
            files = SliceFiles(path, max_bytes)
            assert files.write(name_of(max_bytes), b"1")

        children = [fork(partial(begin, max_bytes)) for max_bytes in bounds]
        os.write(gate, b"...")
        codes = [ended(child) for child in children]
        files = SliceFiles(path, 1 << 40)

        assert codes in ([0, 0, 0], [1, 1, 0])  # the bounds of two are too small for 256 directories
        assert [files.read(name_of(max_bytes)) is not None for max_bytes in bounds] == [code == 0 for code in codes]
        shutil.rmtree(path)
        os.close(go)
        os.close(gate)


def test_forks_of_a_process_whose_threads_read_and_write_go_on(path: Path) -> None:
    files, is_over = SliceFiles(path, LEAST_BYTES), threading.Event()

    def work() -> None:
        seed = 0
        while not is_over.is_set():
            work_on(path, seed := seed + 1, 10, lambda: None)

    def go_on() -> None:
        signal.alarm(LIMIT_S)  # a lock of the parent would hold it forever
        assert files.write(name_of(1000), b"1")
        assert files.read(name_of(1000)) == b"1"
        work_on(path, 1, 10, lambda: None)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    codes = [ended(fork(go_on)) for _ in range(20)]
    is_over.set()
    for thread in threads:
        thread.join()

    assert codes == [0] * 20


# Disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 4 MiB."""
    with small_file_system(tmp_path / "disk", 4) as disk:
        yield disk


def test_a_full_disk_stores_nothing_until_it_has_room(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = SliceFiles(small_disk, LEAST_BYTES)
    names = [name_of(number) for number in range(12)]

    stored = [name for name in names if files.write(name, bytes.fromhex(name) * (MB // 16))]
    kept = [name for name in names if files.read(name) == bytes.fromhex(name) * (MB // 16)]
    leftovers = list(small_disk.glob("??/*.part"))
    files.remove(stored[0])

    assert len(stored) == 3
    assert kept == stored
    assert leftovers == []
    assert caplog.messages == [f"slices cannot be stored (reason: {small_disk}: {os.strerror(errno.ENOSPC)})"]
    assert files.write(stored[0], bytes(MB))


def test_a_read_only_disk_is_read_and_a_new_process_is_told(small_disk: Path) -> None:
    path = small_disk / "slices"
    files = SliceFiles(path, LEAST_BYTES)
    files.write(name_of(1), b"1")
    os.utime(path / "00" / f"{name_of(1)}.slice", (1, 1))

    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    during = files.read(name_of(1)), files.write(name_of(2), b"2"), files.read(name_of(2))
    files.remove(name_of(1))
    with pytest.raises(InvalidSettingError, match="is not writable"):
        SliceFiles(path, LEAST_BYTES)
    with pytest.raises(InvalidSettingError, match="Read-only file system"):
        SliceFiles(small_disk / "others", LEAST_BYTES)
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)

    assert during == (b"1", False, None)
    assert files.write(name_of(2), b"2")
    assert files.read(name_of(1)) == b"1"


def test_a_process_with_a_limit_on_file_sizes_stores_smaller_slices(path: Path) -> None:
    files = SliceFiles(path, LEAST_BYTES)

    def write() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MB // 2, MB // 2))
        assert not files.write(name_of(1), bytes(MB))
        assert files.write(name_of(2), bytes(300))

    assert ended(fork(write)) == 0
    assert [files.read(name_of(1)), files.read(name_of(2))] == [None, bytes(300)]
    assert list(path.glob("??/*.part")) == []
