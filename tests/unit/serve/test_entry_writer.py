"""Entry writer: entries reach the disk in order, behind the reads, and a slow disk misses some."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from burstcache.serve.entry_writer import EntryWriter
from support.clock import ManualClock
from support.waiting import LIMIT_S, until

MB = 1 << 20


class SlowDisk:
    """A disk whose writes wait until they are released."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()
        self.written: list[str] = []

    def write(self, name: str) -> None:
        self.begun.set()
        assert self.release.wait(LIMIT_S)
        self.written.append(name)


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.release.set()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


@pytest.fixture
def writer(disk: SlowDisk, clock: ManualClock) -> EntryWriter:
    """Return a writer that has begun to write an entry of a byte."""
    writer = EntryWriter(ThreadPoolExecutor(1), clock)
    writer.submit(1, lambda: disk.write("first"))
    assert disk.begun.wait(LIMIT_S)
    return writer


def test_entries_are_written_in_order_while_nobody_waits(disk: SlowDisk, writer: EntryWriter) -> None:
    for number in range(5):
        writer.submit(1, lambda number=number: disk.write(str(number)))  # type: ignore[misc]
    before = list(disk.written)
    disk.release.set()
    writer.close(LIMIT_S)

    assert before == []
    assert disk.written == ["first", "0", "1", "2", "3", "4"]


@pytest.mark.parametrize(("waited_s", "written"), [(2.0, ["first", "next"]), (2.1, ["first"])])
def test_an_entry_that_waits_too_long_is_dropped(
    disk: SlowDisk, writer: EntryWriter, clock: ManualClock, waited_s: float, written: list[str]
) -> None:
    writer.submit(1, lambda: disk.write("next"))
    clock.now_s += waited_s
    disk.release.set()
    writer.close(LIMIT_S)

    assert disk.written == written


def test_waiting_entries_take_a_bounded_memory(disk: SlowDisk, writer: EntryWriter) -> None:
    for number in range(10):
        writer.submit(9 * MB, lambda number=number: disk.write(str(number)))  # type: ignore[misc]
    disk.release.set()
    until(lambda: not writer._waiting)
    writer.submit(60 * MB, lambda: disk.write("later"))
    writer.close(LIMIT_S)

    assert disk.written == ["first", *"0123456", "later"]


def test_a_single_entry_may_be_of_any_size(disk: SlowDisk, clock: ManualClock) -> None:
    writer = EntryWriter(ThreadPoolExecutor(1), clock)
    disk.release.set()
    writer.submit(1000 * MB, lambda: disk.write("large"))
    writer.close(LIMIT_S)

    assert disk.written == ["large"]


def test_a_failed_write_leaves_room_for_the_next(disk: SlowDisk, clock: ManualClock) -> None:
    writer = EntryWriter(ThreadPoolExecutor(1), clock)
    disk.release.set()

    def fail() -> None:
        raise OSError

    for _ in range(3):
        writer.submit(60 * MB, fail)
        until(lambda: not writer._waiting)
    writer.submit(60 * MB, lambda: disk.write("last"))
    writer.close(LIMIT_S)

    assert disk.written == ["last"]


def test_close_waits_for_a_limited_time_and_later_entries_are_not_written(disk: SlowDisk, writer: EntryWriter) -> None:
    writer.close(0.01)
    writer.submit(1, lambda: disk.write("after"))
    before = list(disk.written)
    disk.release.set()
    until(lambda: disk.written == ["first"])

    assert before == []
