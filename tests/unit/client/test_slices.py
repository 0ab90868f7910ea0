"""A slice from S3 is asked for again before a long read fails."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.client.slices import Slices
from burstcache.core.errors import OriginUnavailableError, PreconditionFailedError
from burstcache.core.pool.slices import Version
from support.clock import ManualClock

_VERSION = Version("key", "hash", '"1"', 3)


class Store:
    """S3, which raises `errors` before it answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def read_part(self, key: str, etag: str, start: int, into: memoryview) -> None:
        if self.errors:
            raise self.errors.pop(0)
        into[:] = b"abc"[start : start + len(into)]


def _slices(clock: ManualClock, *errors: Exception) -> tuple[Slices, list[str]]:
    forgotten: list[str] = []
    store: Any = Store(*errors)
    return Slices(store, None, forgotten.append, clock), forgotten


def test_a_part_that_fails_is_read_at_once_and_then_after_a_pause() -> None:
    clock = ManualClock()
    slices, _ = _slices(clock, OriginUnavailableError("slow down"), OriginUnavailableError("slow down"))

    assert slices.read(_VERSION, 0, 3) == (b"abc", False)
    assert clock.now_s == 0.5
    slices.close()


def test_a_part_that_fails_three_times_fails_the_read() -> None:
    slices, forgotten = _slices(ManualClock(), *[OriginUnavailableError("slow down")] * 3)

    with pytest.raises(OriginUnavailableError, match="slow down"):
        slices.read(_VERSION, 0, 3)

    assert forgotten == []
    slices.close()


def test_an_object_that_is_another_version_by_now_is_forgotten_at_once() -> None:
    clock = ManualClock()
    slices, forgotten = _slices(clock, PreconditionFailedError("another version"))

    with pytest.raises(PreconditionFailedError):
        slices.read(_VERSION, 0, 3)

    assert forgotten == ["hash"]
    assert clock.now_s == 0
    slices.close()
