"""Slices of an object, and what a slice is coded with."""

from __future__ import annotations

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.pool.slices import SLICE_BYTES, PooledObject, Redundancy


@pytest.mark.parametrize("size", [1, SLICE_BYTES, SLICE_BYTES + 1, 5_000_000_000])
def test_slices_cover_an_object_once(size: int) -> None:
    object_ = PooledObject("hash", "etag", size, Redundancy(10, 2))

    slices = list(object_.slices())

    assert [s.start for s in slices] == [sum(s.size_bytes for s in slices[:at]) for at in range(len(slices))]
    assert sum(s.size_bytes for s in slices) == size
    assert object_.slice_at(size - 1) == slices[-1]
    assert len({s.name for s in slices}) == len(slices)


def test_a_small_slice_is_copied_once_per_chunk_of_parity() -> None:
    slice_ = PooledObject("hash", "etag", 1_000, Redundancy(10, 2)).slice_at(0)

    assert slice_.redundancy == Redundancy(1, 2)


@pytest.mark.parametrize(("data", "parity"), [(0, 1), (33, 1), (10, -1), (10, 33)])
def test_a_redundancy_that_no_code_has_is_refused(data: int, parity: int) -> None:
    with pytest.raises(InvalidSettingError, match=f"{data}\\+{parity} chunks: expected 1 to 32"):
        Redundancy(data, parity)


def test_a_version_that_makes_too_long_a_name_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="makes a slice name of 31. bytes"):
        PooledObject("hash", "e" * 300, 1, Redundancy(10, 2)).slice_at(0)
