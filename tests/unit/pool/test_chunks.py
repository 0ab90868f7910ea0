"""Slices and chunks: any that are enough give the slice back, byte by byte."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.pool.chunks import SLICE_BYTES, PooledObject, Redundancy, checksum

_SIZES = st.one_of(st.integers(1, 3_000), st.integers(262_000, 264_000), st.integers(262_144, 700_000))


@given(size=_SIZES, data=st.integers(1, 32), parity=st.integers(0, 4), seed=st.integers(0, 2**32))
def test_any_chunks_that_are_enough_give_the_slice_back(size: int, data: int, parity: int, seed: int) -> None:
    chance = random.Random(seed)
    body = memoryview(chance.randbytes(size))
    slice_ = PooledObject("hash", "etag", size, Redundancy(data, parity)).slice_at(0)
    code = slice_.redundancy
    parities = slice_.encode(body, range(code.data, code.chunks))

    left = chance.sample(range(code.chunks), chance.randint(code.data, code.chunks))
    arrived = memoryview(bytearray(chance.randbytes(size)))
    for number in left:
        if number < code.data:
            slice_.data_chunk(arrived, number)[:] = slice_.data_chunk(body, number)
    slice_.rebuild(
        arrived, [number for number in left if number < code.data], {n: parities[n] for n in left if n >= code.data}
    )

    assert arrived == body
    lengths = [slice_.length(number) for number in range(code.data)]
    assert (sum(lengths), min(lengths) > 0) == (size, True)
    assert [slice_.length(number) for number in parities] == [len(chunk) for chunk in parities.values()]


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
    with pytest.raises(InvalidSettingError, match=f"{data}\\+{parity} chunks; 1 to 32"):
        Redundancy(data, parity)


def test_a_version_that_makes_too_long_a_name_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="makes a name of 31. bytes"):
        PooledObject("hash", "e" * 300, 1, Redundancy(10, 2)).slice_at(0)


def test_a_chunk_under_another_name_or_number_has_another_checksum() -> None:
    sums = {checksum(name, number, b"same") for name in (b"a", b"b") for number in (0, 1)}

    assert len(sums) == 4
