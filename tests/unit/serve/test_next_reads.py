"""Readers that keep nothing, many at once on a virtual clock: how often S3 is asked, and how old what they get is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import pytest

from burstcache.adapters.single_flight import LEFT_AFTER_S, NEXT_AFTER_S
from burstcache.serve.hit_counter import Served
from burstcache.serve.memory_tier import MemoryTier
from burstcache.serve.reader import Reader
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response
from support.virtual_time import VirtualClock

_READERS = 100


@dataclass
class S3:
    """One object, whose version counts its writes. Reads take their time, there and back."""

    clock: VirtualClock
    takes_s: Callable[[], float]  # on one of both ways
    version: int = 0
    asked: list[int] = field(default_factory=list)  # the versions that were found

    def read(self, request: Request) -> Response:
        self.clock.sleep(self.takes_s())
        body = b"%d" % self.version
        self.asked.append(self.version)
        self.clock.sleep(self.takes_s())
        return Response(200, {"etag": f'"{body.decode()}"', "content-length": str(len(body))}, body)

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Nobody asks."""

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        raise AssertionError("nothing is kept")

    def is_current(self, key: str, known: Entry) -> bool:
        raise AssertionError("there is no tier")

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


class Desk:
    """A reader, and the time that its reads take."""

    def __init__(self, takes_s: Callable[[], float], *, memory_bytes: int = 0) -> None:
        self.clock = VirtualClock()
        self.s3 = S3(self.clock, takes_s)
        memory = MemoryTier(memory_bytes, max_object_bytes=100) if memory_bytes else None
        self.reader = Reader(None, self.s3, _no_tier, self.clock, memory=memory)

    def read(self) -> tuple[int, float]:
        """Return the version that a read gets, and how long it takes [s]."""
        began_s = self.clock.monotonic_s()
        answer = self.reader.read(Request("GET", "a", "0" * 32, {}, None, "r", self.clock.now_us()))
        return int(answer.body), round(self.clock.monotonic_s() - began_s, 6)

    def read_at_once(self) -> list[float]:
        """Return the durations of many reads that start at the same time, sorted [s]."""
        reads = [self.clock.start(self.read) for _ in range(_READERS)]
        return sorted(self.clock.wait_for(read)[1] for read in reads)


def _no_tier(_: object) -> NoReturn:
    raise AssertionError("there is no tier")


def test_a_hundred_reads_at_once_ask_s3_twice_and_take_two_reads_time_at_most() -> None:
    desk = Desk(lambda: 0.01)

    took_s = desk.read_at_once()

    assert len(desk.s3.asked) == 2
    assert took_s == [0.02] + [0.04] * (_READERS - 1)


def test_a_slow_s3_makes_no_read_wait_for_another() -> None:
    desk = Desk(lambda: 1.0)

    took_s = desk.read_at_once()

    assert len(desk.s3.asked) == 2
    assert took_s == [2.0] + [2.0 + NEXT_AFTER_S] * (_READERS - 1)


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_those_that_wait_for_a_read_that_hangs_begin_another_together(memory_bytes: int) -> None:
    hangs_s = iter([30.0] * (1 if memory_bytes else 2))  # on its way there
    desk = Desk(lambda: next(hangs_s, 0.01), memory_bytes=memory_bytes)

    took_s = desk.read_at_once()

    hung = 1 if memory_bytes else 2
    assert len(desk.s3.asked) == hung + 1
    assert took_s[-hung - 1] <= LEFT_AFTER_S + NEXT_AFTER_S + 0.03
    assert took_s[-hung] > 30


@pytest.mark.parametrize("seed", range(10))
def test_no_read_is_older_than_the_newest_write_answered_before_it_began(seed: int) -> None:
    draw = random.Random(seed)
    desk, written, seen = Desk(lambda: draw.uniform(0, 0.03)), [0], list[tuple[int, int]]()

    def read_on() -> None:
        for _ in range(20):
            desk.clock.sleep(draw.uniform(0, 0.03))
            newest = written[-1]
            seen.append((newest, desk.read()[0]))

    def write_on() -> None:
        for version in range(1, 40):
            desk.clock.sleep(draw.uniform(0, 0.02))
            desk.s3.version = version
            desk.clock.sleep(draw.uniform(0, 0.005))
            written.append(version)

    parts = [desk.clock.start(part) for part in (write_on, *[read_on] * 8)]
    for part in parts:
        desk.clock.wait_for(part)

    assert all(newest <= version for newest, version in seen)
    assert len(desk.s3.asked) < len(seen) == 160
