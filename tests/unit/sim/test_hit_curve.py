"""The share of hits of every memory size from one pass, held to replayed caches."""

from __future__ import annotations

import random
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest

from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.engine.stack_distance import confirmed_hits, stack_distances
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.lru import LruStore
from burstcache_sim.world.scenario import homes_of
from support.searches import seeds

US_PER_S = 1_000_000


def replayed_misses(ids: list[int], sizes_bytes: list[int], memory_bytes: int, turns: int = 1) -> list[int]:
    """Return the misses of each turn of a cache that drops the least recently used until a new object fits."""
    held: OrderedDict[int, int] = OrderedDict()
    held_bytes, misses = 0, [0] * turns
    for turn in range(turns):
        for id_ in ids:
            if id_ in held:
                held.move_to_end(id_)
                continue
            misses[turn] += 1
            if sizes_bytes[id_] > memory_bytes:
                continue
            held[id_] = sizes_bytes[id_]
            held_bytes += sizes_bytes[id_]
            while held_bytes > memory_bytes:
                held_bytes -= held.popitem(last=False)[1]
    return misses


def drawn(seed: int, largest_bytes: int = 50) -> tuple[list[int], list[int]]:
    draw = random.Random(seed)
    objects = draw.randrange(1, 30)
    ids = [min(int(draw.paretovariate(0.8)) - 1, objects - 1) for _ in range(draw.randrange(1, 250))]
    ids += list(range(objects))  # each at least once
    return ids, [draw.randrange(1, largest_bytes + 1) for _ in range(objects)]


def locality(ids: list[int], sizes_bytes: list[int]) -> Locality:
    trace = Trace(
        np.arange(len(ids)) * US_PER_S,
        np.array(ids, np.int32),
        np.array([sizes_bytes[id_] for id_ in ids]),
        tuple(map(str, sizes_bytes)),
    )
    return locality_of(trace, object_bytes=1, period_us=len(ids) * US_PER_S)


@pytest.mark.parametrize("seed", seeds(60))
def test_every_memory_size_has_the_misses_of_a_replayed_cache_and_of_its_repetitions(seed: int) -> None:
    ids, sizes_bytes = drawn(seed)
    found = locality(ids, sizes_bytes)

    for memory_bytes in (50, 75, 120, 300, 1_500):
        first, again, later = replayed_misses(ids, sizes_bytes, memory_bytes, turns=3)
        assert again == later
        assert found.misses(memory_bytes, repeats=Fraction(1)) == first, f"seed {seed}, {memory_bytes} bytes"
        assert found.misses(memory_bytes, repeats=Fraction(5)) == Fraction(first + 4 * again, 5)


@pytest.mark.parametrize("seed", seeds(20))
def test_several_nodes_have_the_misses_of_caches_with_keys_of_their_own(seed: int) -> None:
    ids, sizes_bytes = drawn(seed)
    whole = locality(ids, sizes_bytes)
    homes = homes_of(tuple(map(str, range(len(sizes_bytes)))), 3)

    expected = [
        replayed_misses([id_ for id_ in ids if homes[id_] == node], sizes_bytes, 120, turns=2) for node in range(3)
    ]
    misses = [whole.misses(120, repeats=Fraction(repeats), nodes=3) * repeats for repeats in (1, 2)]

    assert misses[0] == sum(first for first, _ in expected), f"seed {seed}"
    assert misses[1] == sum(first + again for first, again in expected), f"seed {seed}"


def test_an_object_keeps_its_node_in_a_part_of_the_log() -> None:
    ids, sizes_bytes = drawn(2)
    whole = locality(ids, sizes_bytes)
    is_kept = whole.ids % 3 == 1

    part = whole.part(is_kept)

    assert part.homes(4)[part.ids].tolist() == whole.homes(4)[whole.ids][is_kept].tolist()


@pytest.mark.parametrize("seed", seeds(20))
def test_objects_larger_than_the_memory_pass_it_by(seed: int) -> None:
    ids, sizes_bytes = drawn(seed, largest_bytes=400)

    (misses,) = replayed_misses(ids, sizes_bytes, 100)

    assert locality(ids, sizes_bytes).misses(100, repeats=Fraction(1)) == misses


def test_objects_above_what_a_cache_accepts_are_missed_whatever_its_memory() -> None:
    found = locality([0, 1, 0, 1, 0, 1], [10, 600])

    assert found.misses(10_000, repeats=Fraction(1), largest_bytes=512) == 1 + 3


def test_a_size_that_changes_counts_as_the_largest_and_errs_by_less_than_a_replay_with_each_size() -> None:
    random_ = np.random.default_rng(3)
    ids = (random_.zipf(1.2, 20_000) % 500).astype(np.int32)
    sizes_bytes = random_.integers(900, 1_100, 20_000)  # each answer of another size, a tenth around 1,000
    trace = Trace(np.arange(20_000), ids, sizes_bytes, tuple(map(str, range(500))))
    store, misses = LruStore(100_000), 0
    for id_, size_bytes in zip(ids.tolist(), sizes_bytes.tolist(), strict=True):
        misses += id_ not in store
        store.put(id_, size_bytes)

    found = locality_of(trace, object_bytes=1, period_us=20_000).misses(100_000, repeats=Fraction(1))

    assert misses <= found <= 1.05 * misses


def test_several_readers_have_a_memory_each_and_together_all_requests() -> None:
    ids, sizes_bytes = drawn(5)
    whole = locality(ids, sizes_bytes)

    readers = whole.of_readers(3)

    assert sum(len(reader.ids) for reader in readers) == len(ids)
    together = sum(reader.misses(10_000, repeats=Fraction(1)) for reader in readers)
    assert whole.misses(10_000, repeats=Fraction(1)) < together <= len(ids)


def test_what_s3_confirmed_counts_until_the_bound_has_passed() -> None:
    ids, times_us = np.zeros(5, np.int64), np.array([0, 400_000, 1_000_000, 1_000_001, 3_000_000])
    distances, _ = stack_distances(ids, np.array([10]), np.zeros(1, np.bool_))

    hits = confirmed_hits(times_us, ids, distances, 10, US_PER_S, 1)

    assert hits == 2  # the fourth asks S3, the fifth again
    assert confirmed_hits(times_us, ids, distances, 9, US_PER_S, 1) == 0
