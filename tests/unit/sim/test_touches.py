"""Touches of slices: what they cover and share, and hits, GETs and copies beside caches kept slice by slice."""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.client import configuration
from burstcache.core.prices import price_sheet
from burstcache.core.slices import SLICE_BYTES
from burstcache.serve import slice_memory
from burstcache_sim.bill import static_tiers
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.market import Market
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import ENTRY_BYTES, library_misses, static_month
from burstcache_sim.bill.touches import MAX_TOUCHES, touches_of
from burstcache_sim.traces.ranges import piece_text, range_start
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from support.searches import search

MIB = 1 << 20
ABOVE_BYTES = 8 * MIB
TODAY = price_sheet("today-us-east-1")
Range = tuple[int, int, int]  # object, start, end


def trace_of(ranges: list[Range], sizes_bytes: list[int]) -> Trace:
    """Return a trace of a range each second, as a log with offsets has it."""
    keys = sorted(set(ranges))
    ids = {each: number for number, each in enumerate(keys)}
    whole = np.array([sizes_bytes[of] for of, _, _ in ranges])
    return Trace(
        np.arange(len(ranges)) * 1_000_000,
        np.array([ids[each] for each in ranges], np.int32),
        np.array([end - start for _, start, end in ranges]),
        tuple(f"{of}{piece_text(b'%d-%d' % (start, end - 1))}" for of, start, end in keys),
        object_bytes=whole,
        objects=tuple(str(of) for of, _, _ in keys),
    )


def locality(trace: Trace) -> Locality:
    return locality_of(trace, object_bytes=1, period_us=US_PER_H)


def market(trace: Trace, setup: Setup, *, usd_per_hit: str = "0") -> Market:
    demand = demand_of(trace, object_bytes=1, period_us=US_PER_H)
    return Market(demand=demand, locality=locality(trace), prices=TODAY, setup=setup, usd_per_hit=Fraction(usd_per_hit))


@st.composite
def reads(draw: st.DrawFn) -> tuple[list[Range], list[int]]:
    """Draw ranges of a few small and large objects."""
    sizes = draw(st.lists(st.integers(1, 40 * MIB), min_size=1, max_size=4))
    ranges = []
    for _ in range(draw(st.integers(1, 12))):
        of = draw(st.integers(0, len(sizes) - 1))
        start = draw(st.integers(0, sizes[of] - 1))
        ranges.append((of, start, draw(st.integers(start + 1, sizes[of]))))
    return ranges, sizes


@search(200)
@given(reads())
def test_a_range_touches_the_slices_that_it_overlaps_and_shares_them(drawn: tuple[list[Range], list[int]]) -> None:
    ranges, sizes = drawn
    found = touches_of(locality(trace_of(ranges, sizes)), ABOVE_BYTES)

    if max(sizes[of] for of, _, _ in ranges) <= ABOVE_BYTES:
        assert found is None
        return
    assert found is not None
    name_of: dict[tuple[int, ...], int] = {}
    at = 0
    for index, (of, start, end) in enumerate(ranges):
        assert found.first[index] == at
        is_large = sizes[of] > ABOVE_BYTES
        expected: list[tuple[int, ...]] = (
            [(of, place) for place in range(start // SLICE_BYTES, -(-end // SLICE_BYTES))]
            if is_large
            else [(of, start, end)]
        )
        for unit in expected:
            number = int(found.locality.ids[at])
            assert name_of.setdefault(unit, number) == number
            length = min(SLICE_BYTES, sizes[of] - unit[1] * SLICE_BYTES) if is_large else end - start
            assert found.locality.sizes_bytes[number] == length
            assert found.is_slice[number] == is_large
            at += 1
    assert at == len(found.locality.ids)
    assert len(set(name_of.values())) == len(name_of) == len(found.locality.sizes_bytes)


@search(100)
@given(st.binary(max_size=12), st.integers(0, 2**50), st.integers(0, 2**50))
def test_the_offset_of_a_range_is_found_in_its_text(other: bytes, first: int, length: int) -> None:
    assert range_start(piece_text(b"%d-%d" % (first, first + length))) == first
    assert range_start(piece_text(b"%d-" % first)) == first
    assert range_start(piece_text(b"")) == 0
    assert range_start(piece_text(b"p" + other)) == -1
    assert range_start(piece_text(b"%d" % length)) == -1


@pytest.mark.parametrize("memory_mib", [16, 64])
def test_hits_of_the_library_are_those_of_an_lru_cache_of_slices(memory_mib: int) -> None:
    draw = random.Random(memory_mib)
    sizes = [draw.randrange(10_000, 3 * MIB) for _ in range(40)] + [draw.randrange(9 * MIB, 90 * MIB) for _ in range(8)]
    ranges = []
    for _ in range(6_000):
        of = min(int(draw.paretovariate(0.4)) - 1, len(sizes) - 1)
        start = draw.randrange(sizes[of]) if sizes[of] > ABOVE_BYTES else 0
        end = min(sizes[of], start + draw.randrange(1, 2 * MIB)) if sizes[of] > ABOVE_BYTES else sizes[of]
        ranges.append((of, start, end))

    misses, gets = library_misses(locality(trace_of(ranges, sizes)), memory_mib * MIB, Fraction(1))

    cache: OrderedDict[tuple[int, int], int] = OrderedDict()
    held = expected_misses = expected_gets = 0
    for of, start, end in ranges:
        is_large = sizes[of] > ABOVE_BYTES
        is_missed, before = False, None
        places = range(start // SLICE_BYTES, -(-end // SLICE_BYTES)) if is_large else (0,)
        for place in places:
            size = (min(SLICE_BYTES, sizes[of] - place * SLICE_BYTES) if is_large else sizes[of]) + ENTRY_BYTES
            if (of, place) in cache:
                cache.move_to_end((of, place))
                continue
            is_missed = True
            expected_gets += before is None or place != before + 1 or place % (8 * MIB // SLICE_BYTES) == 0
            before = place
            if is_large or sizes[of] <= memory_mib * MIB // 8:
                cache[of, place] = size
                held += size
                while held > memory_mib * MIB:
                    held -= cache.popitem(last=False)[1]
        expected_misses += is_missed
    assert 0.1 < expected_misses / len(ranges) < 0.9
    assert misses == expected_misses
    assert gets == expected_gets > misses


def test_the_sizes_are_those_of_the_library() -> None:
    assert configuration._WHOLE_BYTES == static_tiers.MAX_WHOLE_BYTES
    assert slice_memory.LEAST_MEMORY_BYTES == static_tiers.LEAST_MEMORY_BYTES
    assert slice_memory._OVERHEAD_BYTES <= ENTRY_BYTES


def test_a_whole_object_is_read_by_gets_of_8_mib() -> None:
    trace = Trace(np.arange(3) * 1_000_000, None, np.full(3, 100 * MIB))

    found = static_month(market(trace, Setup(relay="none", nodes=0, reader_memory_bytes=64 * MIB)), None)

    assert (found.n, found.n_s3, found.range_gets) == (3, 3, 3 * 12)
    (quote,) = quotes(market(trace, Setup()), names=("reader-memory:64MB",))
    assert sum(line.quantity for line in quote.bill.lines if line.item == "s3-get") == 3 * 13


def test_slices_far_into_vast_objects_are_told_apart() -> None:
    ranges = [(of, 2**46 + of, 2**46 + of + 1) for of in range(2_000)]

    found = touches_of(locality(trace_of(ranges, [2**46 + 2_001] * 2_000)), ABOVE_BYTES)

    assert found is not None
    assert len(set(found.locality.ids.tolist())) == 2_000
    assert set(found.locality.sizes_bytes) == {2_001}


def test_a_range_without_an_offset_shares_no_slice() -> None:
    trace = replace(
        trace_of([(0, 0, 100), (0, 0, 200)], [20 * MIB]), keys=("0 [100 bytes]", "0 [200 bytes]"), assumed_ranges=2
    )

    found = touches_of(locality(trace), ABOVE_BYTES)

    assert found is not None
    assert len(found.locality.sizes_bytes) == 2
    assert set(found.locality.sizes_bytes) == {SLICE_BYTES}


def test_vast_objects_have_fewer_and_larger_slices() -> None:
    ids, sizes_bytes = np.arange(400, dtype=np.int32) % 7, np.full(400, 5 * 10**12)
    trace = Trace(np.arange(400) * 1_000_000, ids, sizes_bytes, tuple("abcdefg"))
    began_s = time.process_time()

    found = touches_of(locality(trace), ABOVE_BYTES)

    assert found is not None
    assert len(found.locality.ids) <= MAX_TOUCHES + 400
    assert found.locality.sizes_bytes.sum() == 7 * 5 * 10**12
    assert found.slice_bytes % SLICE_BYTES == 0
    gets = found.gets(np.ones(len(found.locality.ids), np.bool_))
    assert gets == pytest.approx(400 * 5 * 10**12 / (8 * MIB), rel=0.01)  # however long the slices are
    assert time.process_time() - began_s < 10


def test_slices_are_on_nodes_where_they_pay_and_in_express_one_by_one() -> None:
    draw = random.Random(4)
    starts = [draw.randrange(64) * 2 * MIB for _ in range(3_000)]
    trace = trace_of([(0, start, start + MIB) for start in starts], [128 * MIB])
    setup = Setup(relay="none", reader_memory_bytes=16 * MIB, instance_type="r7g.large", nodes=1, always_on_nodes=1)
    far = replace(setup, far_readers=1)  # a transfer between zones costs more than a GET

    paid, unpaid = (static_month(market(trace, each), None) for each in (setup, far))
    express = static_month(market(trace, replace(setup, nodes=0, always_on_nodes=0, express=True)), Fraction("1e-2"))

    assert unpaid.n_redis == 0
    assert paid.n_redis > paid.n_s3 >= len(set(starts))
    assert paid.n_memory == unpaid.n_memory > 0
    assert express.express.asks == 4 * (express.n - express.n_memory)
    assert len(set(starts)) * 4 <= express.express.copies + express.range_gets + express.n_s3
    assert express.n_express > express.n_s3
    assert express.express.copied_bytes == express.express.copies * SLICE_BYTES
