"""Chunks of a slice: any that are enough give the slice back, byte by byte."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.pool.slices import PooledObject, Redundancy
from burstcache.pool.chunks import checksum, encode, rebuild

_SIZES = st.one_of(st.integers(1, 3_000), st.integers(262_000, 264_000), st.integers(262_144, 700_000))


@given(size=_SIZES, data=st.integers(1, 32), parity=st.integers(0, 4), seed=st.integers(0, 2**32))
def test_any_chunks_that_are_enough_give_the_slice_back(size: int, data: int, parity: int, seed: int) -> None:
    chance = random.Random(seed)
    body = memoryview(chance.randbytes(size))
    slice_ = PooledObject("hash", "etag", size, Redundancy(data, parity)).slice_at(0)
    code = slice_.redundancy
    parities = encode(slice_, body, range(code.data, code.chunks))

    left = chance.sample(range(code.chunks), chance.randint(code.data, code.chunks))
    arrived = memoryview(bytearray(chance.randbytes(size)))
    for number in left:
        if number < code.data:
            slice_.data_chunk(arrived, number)[:] = slice_.data_chunk(body, number)
    held = [number for number in left if number < code.data]
    rebuild(slice_, arrived, held, {number: parities[number] for number in left if number >= code.data})

    assert arrived == body
    lengths = [slice_.length(number) for number in range(code.data)]
    assert (sum(lengths), min(lengths) > 0) == (size, True)
    assert [slice_.length(number) for number in parities] == [len(chunk) for chunk in parities.values()]


def test_a_chunk_under_another_name_or_number_has_another_checksum() -> None:
    sums = {checksum(name, number, b"same") for name in (b"a", b"b") for number in (0, 1)}

    assert len(sums) == 4
