"""New objects in each repetition of a log: how many, which, and that every system meets them, held to plain caches."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from burstcache.core.express import LEAST_US
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.competitors import quotes
from burstcache_sim.bill.demand import demand_of
from burstcache_sim.bill.express import CopyUsage, first_read_rule, totals
from burstcache_sim.bill.locality import EVERYTHING_BYTES, Locality, locality_of
from burstcache_sim.bill.market import Market, Quote
from burstcache_sim.bill.policy_month import _trace
from burstcache_sim.bill.reads import Reads
from burstcache_sim.bill.renewal import is_passing, new_objects, with_renewal
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.static_tiers import memory_misses, node_misses
from burstcache_sim.traces.trace import KeySample, Trace
from burstcache_sim.units import HOURS_PER_MONTH, US_PER_H
from burstcache_sim.world.scenario import numbered_keys
from support.searches import seeds

TODAY = price_sheet("today-us-east-1")
KB, MB = 1024, 1024**2
BARE = Setup(relay="none", nodes=0, instance_type="t4g.nano")


def drawn(seed: int, requests: int = 200, objects: int = 40, *, share: float = 0.5) -> Locality:
    """Requests for objects by their rank, a share of them renewed."""
    draw = random.Random(seed)
    ids = [min(int(draw.paretovariate(0.8)) - 1, objects - 1) for _ in range(draw.randrange(1, requests))]
    ids += list(range(objects))
    sizes_bytes = [draw.randrange(1, 60) for _ in range(objects)]
    renewed = np.array([draw.random() < share for _ in range(objects)])
    return Locality(np.arange(len(ids)), np.array(ids), np.array(sizes_bytes), len(ids), renewed=renewed)


def named(locality: Locality, turns: int) -> list[list[tuple[int, int]]]:
    """Return the names that each repetition asks for: an object, and the repetition for a renewed one."""
    return [[(id_, turn if locality.is_renewed[id_] else 0) for id_ in locality.ids.tolist()] for turn in range(turns)]


def plain_misses(locality: Locality, memory_bytes: int, turns: int) -> list[int]:
    """Return the misses of each repetition in a plain LRU cache of names."""
    held: OrderedDict[tuple[int, int], int] = OrderedDict()
    misses = [0] * turns
    for turn, names in enumerate(named(locality, turns)):
        for name in names:
            misses[turn] += not held_then_put(held, name, int(locality.sizes_bytes[name[0]]), memory_bytes)
    return misses


def held_then_put(
    held: OrderedDict[tuple[int, int], int], name: tuple[int, int], size_bytes: int, memory_bytes: int
) -> bool:
    if name in held:
        held.move_to_end(name)
        return True
    if size_bytes <= memory_bytes:
        held[name] = size_bytes
        while sum(held.values()) > memory_bytes:
            held.popitem(last=False)
    return False


def log_of(halves: tuple[list[int], list[int]], size_bytes: int = 10 * KB) -> Trace:
    """An hour that asks for the first list's objects in its first half, for the second's in its second."""
    first, second = (np.array(half, np.int32) for half in halves)
    times_us = np.concatenate(
        (np.linspace(0, US_PER_H // 2 - 1, len(first)), np.linspace(US_PER_H // 2 + 1, US_PER_H, len(second)))
    ).astype(np.int64)
    ids = np.concatenate((first, second))
    return Trace(times_us, ids, np.full(len(ids), size_bytes), tuple(map(str, range(int(ids.max()) + 1))))


def market(trace: Trace, *, same_objects: bool = False, repeats: int = HOURS_PER_MONTH, usd: str = "0") -> Market:
    demand = demand_of(trace, object_bytes=1, period_us=US_PER_H)
    locality = locality_of(trace, object_bytes=1, period_us=US_PER_H)
    locality = locality if same_objects else with_renewal(locality)
    worth = Fraction(usd)
    return Market(
        demand=demand, locality=locality, prices=TODAY, setup=BARE, repeats=Fraction(repeats), usd_per_hit=worth
    )


# How many objects are new


def test_objects_that_both_halves_have_stay_and_a_log_that_never_repeats_is_all_new() -> None:
    stays = with_renewal(locality_of(log_of(([0, 1] * 50, [1, 0] * 50)), object_bytes=1, period_us=US_PER_H))
    new = with_renewal(locality_of(log_of((list(range(100)), list(range(100, 200)))), object_bytes=1, period_us=1))

    assert not stays.is_renewed.any()
    assert new.is_renewed.all()


def test_an_object_of_one_half_is_passing() -> None:
    locality = locality_of(log_of(([0, 1, 2] * 30, [2, 3] * 30)), object_bytes=1, period_us=US_PER_H)

    assert is_passing(locality).tolist() == [True, True, False, True]


def test_objects_that_become_fewer_with_each_doubling_become_fewer_still() -> None:
    """100 objects in each quarter, of which the first two share half: 150 in a half, and 200 in all of it."""
    quarters = [range(100), range(50, 150), range(50, 150), range(100, 200)]
    ids = np.concatenate([np.array(quarter) for quarter in quarters])

    found = new_objects(np.arange(len(ids)), ids)

    assert found == pytest.approx(200 * (200 / 150 - 1) * (200 / 150 - 1) / (150 / 100 - 1))


@pytest.mark.parametrize("seed", seeds(20))
def test_a_stationary_draw_is_foretold_within_a_few_points(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ids = draw.zipf(1.4, 8_000) % 5_000
    first, second = ids[:4_000], ids[4_000:]

    expected = new_objects(np.arange(4_000), first) / 4_000

    actual = len(np.setdiff1d(second, first)) / 4_000
    assert expected == pytest.approx(actual, abs=0.03)


@pytest.mark.parametrize("seed", seeds(40))
def test_no_more_objects_are_renewed_than_pass(seed: int) -> None:
    locality = replace(drawn(seed), renewed=None)

    found = with_renewal(locality)

    assert not (found.is_renewed & ~is_passing(locality)).any()
    assert 0 <= new_objects(locality.times_us, locality.ids) <= is_passing(locality).sum() + 1e-9


# Every system meets them


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_hits_of_every_memory_are_those_of_a_plain_cache_of_renamed_keys(seed: int, share: float) -> None:
    locality = drawn(seed, share=share)

    for memory_bytes in (60, 90, 200, 500, 5_000):
        first, again, later = plain_misses(locality, memory_bytes, 3)
        assert again == later
        expected = Fraction(first + 4 * again, 5)
        assert locality.misses(memory_bytes, repeats=Fraction(5)) == expected, f"seed {seed}, {memory_bytes} bytes"


@pytest.mark.parametrize("seed", seeds(20))
def test_more_memory_never_misses_more_and_with_all_of_it_only_new_objects_are_missed(seed: int) -> None:
    locality = drawn(seed)

    misses = [locality.misses(memory_bytes, repeats=Fraction(2)) for memory_bytes in range(60, 3_000, 60)]

    assert misses == sorted(misses, reverse=True)
    least = Fraction(int(locality.objects) + int(locality.is_renewed.sum()), 2)
    assert locality.misses(locality.working_bytes, repeats=Fraction(2)) == least
    assert locality.misses(EVERYTHING_BYTES, repeats=Fraction(2)) == least


@pytest.mark.parametrize("seed", seeds(20))
def test_rungs_above_each_other_are_plain_caches_of_renamed_keys(seed: int) -> None:
    given = drawn(seed)
    sizes_bytes = given.sizes_bytes * MB
    locality = replace(given, sizes_bytes=np.minimum(sizes_bytes, 3 * MB))
    setup = replace(BARE, nodes=1, always_on_nodes=1, reader_memory_bytes=40 * MB)

    above, below = memory_misses(locality, setup), node_misses(locality, setup)

    memory: OrderedDict[tuple[int, int], int] = OrderedDict()
    node: OrderedDict[tuple[int, int], int] = OrderedDict()
    left_by_memory, left_by_node = [], []
    for name in (name for names in named(locality, 2) for name in names):
        size_bytes = int(locality.sizes_bytes[name[0]])
        is_left = not held_then_put(memory, name, size_bytes + 512 + 8 * 150, 40 * MB)
        left_by_memory.append(is_left)
        left_by_node.append(is_left and not held_then_put(node, name, size_bytes, 3 * 1024 * MB // 8))
    assert [*above.first.tolist(), *above.again.tolist()] == left_by_memory
    assert [*below.first.tolist(), *below.again.tolist()] == left_by_node


def test_a_policy_meets_renewed_objects_under_new_names() -> None:
    locality = replace(drawn(3), period_us=1_000)
    count = len(locality.ids)

    trace = _trace(Reads(locality), np.arange(2 * count), numbered_keys(len(locality.twice()[1])))

    assert trace.key_ids is not None
    met = [trace.keys[id_] for id_ in trace.key_ids.tolist()]
    is_new = locality.is_renewed[locality.ids]
    assert [one != other for one, other in zip(met[:count], met[count:], strict=True)] == is_new.tolist()
    assert not set(met[:count]) & {name for name, is_it in zip(met[count:], is_new, strict=True) if is_it}


def test_a_part_and_a_readers_share_keep_which_objects_are_renewed() -> None:
    locality = drawn(5)
    part = locality.part(locality.ids % 3 == 1)

    assert part.is_renewed[part.ids].tolist() == locality.is_renewed[locality.ids][locality.ids % 3 == 1].tolist()
    assert sum(int(one.is_renewed[one.ids].sum()) for one in locality.of_readers(3)) == int(
        locality.is_renewed[locality.ids].sum()
    )


# Copies and stores


def copies_by_hand(locality: Locality, repeats: int) -> tuple[int, int, float]:
    """Return copies, bytes copied, and byte-microseconds until the month ends, if every name is copied and kept."""
    month_us, made, copied, held = repeats * locality.period_us, set(), 0, 0.0
    for turn, names in enumerate(named(locality, repeats)):
        for at_us, name in zip(locality.times_us.tolist(), names, strict=True):
            if name not in made:
                made.add(name)
                copied += int(locality.sizes_bytes[name[0]])
                left_us = max(month_us - turn * locality.period_us - at_us, LEAST_US)
                held += float(locality.sizes_bytes[name[0]]) * left_us
    return len(made), copied, held


def used(locality: Locality, repeats: int) -> CopyUsage:
    trace = log_of(([0], [0]))
    found = replace(market(trace), locality=locality, repeats=Fraction(repeats))
    return totals(found, first_read_rule(locality))


@pytest.mark.parametrize("repeats", [1, 2, 7, 64])
def test_new_objects_are_copied_again_and_what_is_stored_grows(repeats: int) -> None:
    locality = spread(drawn(8, share=0.4))

    use = used(locality, repeats)

    copies, copied_bytes, held = copies_by_hand(locality, repeats)
    assert use.copies * repeats == copies
    assert use.copied_bytes * repeats == copied_bytes
    assert float(use.held_byte_us * repeats) == pytest.approx(held, rel=1e-9)


@pytest.mark.parametrize("repeats", [65, 100, 200])
def test_repetitions_beyond_those_simulated_store_and_copy_as_if_they_were(repeats: int) -> None:
    locality = spread(drawn(8, share=0.4))

    use = used(locality, repeats)

    copies, copied_bytes, held = copies_by_hand(locality, repeats)
    assert float(use.copies * repeats) == pytest.approx(copies)
    assert float(use.copied_bytes * repeats) == pytest.approx(copied_bytes)
    assert float(use.held_byte_us * repeats) == pytest.approx(held, rel=2e-3)


def test_copies_of_terabytes_over_days_are_stored_exactly() -> None:
    day_us = 24 * US_PER_H
    big = Locality(np.array([0, 6 * day_us]), np.zeros(2, np.int64), np.array([2 * 1024**4]), 7 * day_us)

    use = used(big, 4)

    assert float(use.held_byte_us * 4) == pytest.approx(2 * 1024**4 * 28 * day_us, rel=1e-9)


def spread(locality: Locality) -> Locality:
    """Return the same requests over half a day."""
    step_us = 12 * US_PER_H // len(locality.ids)
    return replace(locality, times_us=locality.times_us * step_us, period_us=12 * US_PER_H)


def bought(found: Market, name: str) -> Quote:
    return next(one for one in quotes(found, names=(name,)))


@pytest.mark.parametrize(
    "name",
    ["reader-memory:64MB", "ec2:t4g.nano", "cloudfront", "efs", "s3-express-all", "serverless-valkey", "fargate:1GB"],
)
def test_every_rival_reads_new_objects_from_s3(name: str) -> None:
    """Two of the four objects pass; by their growth one of them is new in each repetition, one request of 120."""
    halves = ([0, 1, 2] * 20, [0, 1, 3] * 20)

    same, renewed = (bought(market(log_of(halves), same_objects=same), name) for same in (True, False))

    assert same.in_memory_pct == pytest.approx(100, abs=0.1)
    new = int(with_renewal(locality_of(log_of(halves), object_bytes=1, period_us=1)).is_renewed.sum())
    assert new == 1
    assert renewed.in_memory_pct == pytest.approx(100 * (1 - new / 120), abs=0.1)


def test_a_file_system_grows_by_new_objects() -> None:
    found = market(log_of((list(range(100)), list(range(100, 200)))))

    lines = {line.item: float(line.quantity) for line in bought(found, "efs").bill.lines}

    each_gb, metered_gb = (200 * kilobytes * 1024 / 1024**3 for kilobytes in (10, 14))  # 12 and 2 of metadata
    assert lines["efs-write"] == pytest.approx(each_gb)
    assert lines["efs-storage"] == pytest.approx(metered_gb * (HOURS_PER_MONTH + 1) / 2, rel=1e-6)


def test_a_log_without_passing_objects_is_what_it_was() -> None:
    trace = log_of(([0, 1, 2] * 40, [2, 1, 0] * 40))

    same, renewed = (quotes(market(trace, same_objects=same, usd="1e-5")) for same in (True, False))

    assert same == renewed


def test_a_sample_of_the_keys_renews_as_large_a_share() -> None:
    draw = np.random.default_rng(2)
    ids = (draw.zipf(1.3, 40_000) % 20_000).astype(np.int32)
    times_us = np.sort(draw.integers(0, US_PER_H, len(ids)))
    whole = Trace(times_us, ids, np.full(len(ids), 1_000), tuple(map(str, range(20_000))))
    kept = draw.permutation(20_000) < 5_000
    sampled = Trace(
        times_us[kept[ids]], ids[kept[ids]], np.full(int(kept[ids].sum()), 1_000), whole.keys, KeySample(0.25, len(ids))
    )

    ours, theirs = (with_renewal(locality_of(one, object_bytes=1, period_us=US_PER_H)) for one in (sampled, whole))

    assert float(ours.new_objects) == pytest.approx(float(theirs.new_objects), rel=0.1)
