"""A setup in which nothing is decided: memory, nodes that never stop, S3 Express, and what they leave to S3."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from burstcache.adapters.clock import Instant
from burstcache.core.prices import price_sheet
from burstcache.serve.memory_tier import MemoryTier, Ticket
from burstcache.web.entry import Entry
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import ENTRY_BYTES, memory_misses, node_misses, static_month
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.scenario import homes_of
from support.searches import seeds
from support.trace_columns import quarter_of

TODAY = price_sheet("today-us-east-1")
KB, MB = 1024, 1024**2
BARE = Setup(relay="none", nodes=0, instance_type="t4g.nano")


def log(requests: int = 3_000, keys: int = 300, size_bytes: int = 40_000) -> Trace:
    """An hour of requests by Zipf's law for objects of about this size."""
    draw = np.random.default_rng(5)
    ids = (draw.zipf(1.2, requests) % keys).astype(np.int32)
    sizes_bytes = draw.integers(size_bytes // 2, 2 * size_bytes, keys)
    times_us = np.sort(draw.integers(0, US_PER_H, requests))
    return Trace(times_us, ids, sizes_bytes[ids], tuple(map(str, range(keys))))


def market(trace: Trace, setup: Setup, *, repeats: int = HOURS_PER_MONTH, usd_per_hit: str = "0") -> Market:
    demand = demand_of(trace, object_bytes=1, period_us=US_PER_H)
    locality = locality_of(trace, object_bytes=1, period_us=US_PER_H)
    times, usd = Fraction(repeats), Fraction(usd_per_hit)
    return Market(demand=demand, locality=locality, prices=TODAY, setup=setup, repeats=times, usd_per_hit=usd)


def month(trace: Trace, setup: Setup, *, repeats: int = HOURS_PER_MONTH, usd_per_hit: str = "0") -> RunResult:
    found = market(trace, setup, repeats=repeats, usd_per_hit=usd_per_hit)
    return static_month(found, Fraction(usd_per_hit) if setup.express else None)


def rival(trace: Trace, name: str, *, usd_per_hit: str = "0") -> Quote:
    (found,) = quotes(market(trace, BARE, usd_per_hit=usd_per_hit), names=(name,))
    return found


def s3_gets(offer: Quote) -> float:
    return float(next(line.quantity for line in offer.bill.lines if line.item == "s3-get") * HOURS_PER_MONTH)


def test_without_a_rung_s3_answers_everything() -> None:
    run = month(log(), BARE)

    assert run.n == run.n_s3 == 3_000 * HOURS_PER_MONTH


@pytest.mark.parametrize("usd_per_hit", ["0", "1e-6", "1e-4"])
def test_express_alone_is_what_a_rival_has_in_it(usd_per_hit: str) -> None:
    run = month(log(), replace(BARE, express=True), usd_per_hit=usd_per_hit)

    theirs = rival(log(), "s3-express", usd_per_hit=usd_per_hit)

    lines = {line.item: float(line.quantity * HOURS_PER_MONTH) for line in theirs.bill.lines}
    assert run.n_s3 == pytest.approx(lines["s3-get"], abs=1)
    assert run.n_express == run.n - run.n_s3
    assert run.express.asks == run.n
    assert run.express.copies == pytest.approx(lines["s3-express-put"], abs=1)
    assert run.express.read_bytes / 1024**3 == pytest.approx(lines["s3-express-retrieval"], rel=1e-6)
    assert run.express.byte_s / 3600 / 1024**3 == pytest.approx(lines["s3-express-storage"], rel=1e-6)


def test_a_node_that_never_stops_is_what_a_rivals_node_is() -> None:
    trace = log(keys=2_000, requests=20_000, size_bytes=500_000)
    node = replace(BARE, nodes=1, always_on_nodes=1)

    run = month(trace, node)

    assert run.n_s3 == pytest.approx(s3_gets(rival(trace, "ec2:t4g.nano")), abs=1)
    assert run.n_redis == run.n - run.n_s3
    assert run.redis_s == HOURS_PER_MONTH * 3600
    assert month(trace, replace(node, nodes=2, always_on_nodes=2)).n_s3 < run.n_s3


@pytest.mark.parametrize("readers", [1, 4])
def test_misses_of_a_node_that_never_stops_are_reported_in_batches_and_noted_once_an_hour_and_key(readers: int) -> None:
    trace = log(requests=20_000, keys=2_000, size_bytes=500_000)
    node = replace(BARE, nodes=1, always_on_nodes=1, reader_processes=readers)

    run = month(trace, node)

    assert run.n_s3 == run.guests.told == run.guests.fills > 4_000 * HOURS_PER_MONTH
    assert run.guests.told_batches == 360 * HOURS_PER_MONTH  # of each reader: one in ten seconds
    assert live_usage(run, node, period_us=0).events_64kb == readers * 360 * HOURS_PER_MONTH
    assert 1_000 * HOURS_PER_MONTH < run.guests.seen_writes <= len(trace.keys) * HOURS_PER_MONTH


@pytest.mark.parametrize("readers", [1, 3])
def test_the_readers_memory_is_nearly_a_rivals_whose_entries_take_nothing_but_their_bodies(readers: int) -> None:
    trace = log(size_bytes=400_000)
    setup = replace(BARE, reader_memory_bytes=64 * MB, reader_processes=readers)

    run = month(trace, setup)

    (theirs,) = quotes(market(trace, setup), names=("reader-memory:64MB",))
    assert run.n_s3 >= s3_gets(theirs) - 1
    assert run.n_s3 == pytest.approx(s3_gets(theirs), rel=0.03)
    assert run.n_memory == run.n - run.n_s3


def test_an_object_of_more_than_an_eighth_of_the_memory_passes_it_by() -> None:
    trace = Trace(np.arange(10), None, np.full(10, 3 * MB))

    assert month(trace, replace(BARE, reader_memory_bytes=16 * MB)).n_memory == 0
    assert month(trace, replace(BARE, reader_memory_bytes=32 * MB)).n_memory > 0


@pytest.mark.parametrize("name", ["", "reader-memory:16MB", "reader-memory-confirmed:16MB"])
@pytest.mark.parametrize(("more_bytes", "is_kept"), [(0, True), (1, False)])
def test_an_object_of_an_eighth_of_the_memory_is_kept_as_by_a_reader(name: str, more_bytes: int, is_kept: bool) -> None:
    size_bytes = 2 * MB + more_bytes
    trace = Trace(np.arange(10), None, np.full(10, size_bytes))
    memory = MemoryTier(16 * MB, max_object_bytes=4 * MB)

    share = (
        rival(trace, name).in_memory_pct if name else month(trace, replace(BARE, reader_memory_bytes=16 * MB)).n_memory
    )

    assert memory.accepts(size_bytes) == is_kept
    assert (share > 0) == is_kept


def test_an_entry_takes_as_much_of_a_readers_memory_as_is_assumed() -> None:
    meta = {f"{number:015}": f"{number:015}" for number in range(6)}
    memory = MemoryTier(16 * MB, max_object_bytes=KB)
    hashes = [f"{number:032}"[::-1] for number in range(16 * MB // ENTRY_BYTES)]
    for hash_ in hashes:
        body = b"x" * KB
        memory.put(
            hash_, Entry({"etag": '"e"' * 9, "content-length": str(KB), **meta}, body), Ticket(0, Instant(0.0, 0))
        )

    kept = sum(memory.get(hash_) is not None for hash_ in hashes)

    assert kept == pytest.approx(16 * MB / (KB + ENTRY_BYTES), rel=0.02)


def test_a_share_of_bytes_is_exact_beyond_64_bits() -> None:
    sizes_bytes = np.full(100, 2**57)
    trace = Trace(np.arange(100), None, sizes_bytes, sent_bytes=sizes_bytes // 2)

    assert market(trace, BARE).sent_share == Fraction(1, 2)


def test_what_a_rung_holds_is_there_when_the_log_comes_again() -> None:
    all_of_it = replace(BARE, reader_memory_bytes=1024 * MB)

    once, twice = month(log(), all_of_it, repeats=1), month(log(), all_of_it, repeats=2)

    assert once.n_s3 == twice.n_s3 == demand_of(log(), object_bytes=1).objects


@pytest.mark.parametrize("seed", seeds(20))
def test_the_rungs_are_those_of_caches_kept_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    requests, keys = draw.randrange(1, 150), draw.randrange(1, 12)
    ids = [draw.randrange(keys) for _ in range(requests)]
    sizes = [draw.randrange(20 * KB, 60 * MB) for _ in range(keys)]
    locality = Locality(np.arange(requests), np.array(ids), np.array(sizes), requests)
    count = draw.randrange(1, 4)
    setup = replace(BARE, nodes=count, always_on_nodes=count, reader_memory_bytes=draw.choice((0, 100 * MB, 400 * MB)))
    homes = homes_of(tuple(map(str, range(keys))), count)
    entry_bytes = 512 + 8 * 150

    above, below = memory_misses(locality, setup), node_misses(locality, setup)

    node_bytes = 3 * 1024**3 // 8
    most_bytes = setup.reader_memory_bytes
    memory: OrderedDict[tuple[int, int], int] = OrderedDict()
    nodes: list[OrderedDict[tuple[int, int], int]] = [OrderedDict() for _ in range(count)]
    left_by_memory, left_by_node = [], []
    for key in ids * 2:
        is_sliced = most_bytes > 0 and sizes[key] > 4 * MB  # in memory alone, since no slice pays on a node
        parts = range(0, sizes[key], 256 * KB if is_sliced else sizes[key])
        is_left = is_left_by_node = False
        for start in parts:
            size_bytes = min(256 * KB, sizes[key] - start) if is_sliced else sizes[key]
            largest_bytes = min(most_bytes // 8, 4 * MB) + entry_bytes
            if not _held(memory, (key, start), size_bytes + entry_bytes, most_bytes, largest_bytes):
                is_left = True
                is_on_node = not is_sliced and _held(nodes[homes[key]], (key, 0), size_bytes, node_bytes, 4 * MB)
                is_left_by_node |= not is_on_node
        left_by_memory.append(is_left)
        left_by_node.append(is_left_by_node)
    assert _both(above.first, above.again) == left_by_memory
    assert _both(below.first, below.again) == left_by_node


def test_a_sample_stands_for_its_log() -> None:
    whole = log(keys=4_000, requests=40_000)
    sampled = quarter_of(whole)
    setup = replace(BARE, express=True, reader_memory_bytes=64 * MB)

    ours, theirs = month(sampled, setup, usd_per_hit="1e-5"), month(whole, setup, usd_per_hit="1e-5")

    assert ours.n == theirs.n
    assert ours.n_s3 == pytest.approx(theirs.n_s3, rel=0.2)
    assert ours.n_memory == pytest.approx(theirs.n_memory, rel=0.05)


def _held(
    cache: OrderedDict[tuple[int, int], int], key: tuple[int, int], size_bytes: int, most_bytes: int, largest_bytes: int
) -> bool:
    """Ask an LRU cache, and put into it what it lacks; return whether it had it."""
    if key in cache:
        cache.move_to_end(key)
        return True
    if size_bytes <= min(most_bytes, largest_bytes):
        cache[key] = size_bytes
        while sum(cache.values()) > most_bytes:
            cache.popitem(last=False)
    return False


def _both(first: NDArray[np.bool_], again: NDArray[np.bool_]) -> list[bool]:
    return [*first.tolist(), *again.tolist()]
