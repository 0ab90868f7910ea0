"""A slice from S3 is asked for again before a long read fails."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.adapters.object_store import Progress
from burstcache.core.errors import OriginUnavailableError, PreconditionFailedError
from burstcache.core.slices import Version
from burstcache.serve.part_source import PartSource
from support.clock import ManualClock

_VERSION = Version("key", "hash", '"1"', 3)


class Store:
    """S3, which raises `errors` before it answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def read_part(self, key: str, etag: str, start: int, into: memoryview, progress: Progress) -> None:
        if self.errors:
            raise self.errors.pop(0)
        into[:] = b"abc"[start : start + len(into)]
        for stop in progress.stops:
            progress.reached(stop)


def _source(clock: ManualClock, *errors: Exception) -> tuple[PartSource, list[str]]:
    forgotten: list[str] = []
    store: Any = Store(*errors)
    return PartSource(store, None, forgotten.append, clock), forgotten


def _read(source: PartSource) -> bytes:
    body = bytearray(3)
    assert source.begin(_VERSION, 0, memoryview(body)).result() == "s3"
    return bytes(body)


def test_a_part_that_fails_is_read_at_once_and_then_after_a_pause() -> None:
    clock = ManualClock()
    source, _ = _source(clock, OriginUnavailableError("slow down"), OriginUnavailableError("slow down"))

    assert _read(source) == b"abc"
    assert clock.now_s == 0.5
    source.close()


def test_a_part_that_fails_three_times_fails_the_read() -> None:
    source, forgotten = _source(ManualClock(), *[OriginUnavailableError("slow down")] * 3)

    with pytest.raises(OriginUnavailableError, match="slow down"):
        _read(source)

    assert forgotten == []
    source.close()


def test_an_object_that_is_another_version_by_now_is_forgotten_at_once() -> None:
    clock = ManualClock()
    source, forgotten = _source(clock, PreconditionFailedError("another version"))

    with pytest.raises(PreconditionFailedError):
        _read(source)

    assert forgotten == ["hash"]
    assert clock.now_s == 0
    source.close()


def test_an_answer_that_breaks_off_is_continued_where_it_ended() -> None:
    requested: list[tuple[int, int]] = []
    stops: list[int] = []

    class Breaking:
        def read_part(self, key: str, etag: str, start: int, into: memoryview, progress: Progress) -> None:
            requested.append((start, len(into)))
            into[:1] = b"abcdef"[start : start + 1]
            progress.reached(1)
            if len(into) > 1:
                raise OriginUnavailableError("broke off")

    store: Any = Breaking()
    source, body = PartSource(store, None, lambda _: None, ManualClock()), bytearray(3)
    source.read(_VERSION, 2, memoryview(body), (1, 2, 3), lambda stop, tier: stops.append(stop))

    assert bytes(body) == b"cde"
    assert requested == [(2, 3), (3, 2), (4, 1)]
    assert stops == [1, 2, 3]
    source.close()
