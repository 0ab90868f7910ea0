"""Memory: what is kept, what gives way, what a change drops."""

from __future__ import annotations

import threading
import tracemalloc

import pytest

from burstcache.adapters.clock import Instant
from burstcache.core.digest import Digest, prefix_of
from burstcache.serve.memory_tier import MemoryTier, Ticket
from burstcache.web.entry import Entry

_HASHES = [f"{number:012d}" + "0" * 20 for number in range(20)]


def entry(size_bytes: int = 1) -> Entry:
    return Entry({"etag": '"e"', "content-length": str(size_bytes)}, b"x" * size_bytes)


def ticket(sequence: int | None = 0) -> Ticket:
    return Ticket(sequence, Instant(0.0, 0))


def test_an_entry_is_kept_until_it_is_dropped() -> None:
    memory = MemoryTier(1 << 20, max_object_bytes=1000)
    assert memory.put(_HASHES[0], entry(), ticket())
    kept = memory.get(_HASHES[0])
    memory.drop(_HASHES[0])

    assert kept is not None
    assert kept.entry == entry()
    assert memory.get(_HASHES[0]) is None


def test_the_least_recently_used_entries_give_way() -> None:
    memory = MemoryTier(36_000, max_object_bytes=4000)
    for hash_ in _HASHES[:9]:
        memory.put(hash_, entry(3000), ticket())
        memory.get(_HASHES[0])
    memory.put(_HASHES[9], entry(3000), ticket())

    assert [hash_ for hash_ in _HASHES if memory.get(hash_)] == [_HASHES[0], *_HASHES[2:10]]


@pytest.mark.parametrize(
    ("max_bytes", "max_object_bytes", "largest_bytes"),
    [(80_000, 10**6, 10_000), (80_000, 500, 500), (1000, 500, 125), (500, 500, -1)],
)
def test_an_object_above_its_share_is_not_kept(max_bytes: int, max_object_bytes: int, largest_bytes: int) -> None:
    memory = MemoryTier(max_bytes, max_object_bytes=max_object_bytes)

    assert [memory.put(_HASHES[0], entry(size), ticket()) for size in (largest_bytes + 1, largest_bytes)] == [
        False,
        largest_bytes >= 0,
    ]


@pytest.mark.parametrize("headers", [4, 20])
def test_many_small_objects_take_no_more_than_memory_may(headers: int) -> None:
    max_bytes = 1 << 20
    tracemalloc.start()

    memory = MemoryTier(max_bytes, max_object_bytes=1000)
    for number in range(1000):
        meta = {f"x-amz-meta-{name}-{number}": f"{number:0100}" for name in range(headers)}
        memory.put(f"{number:012d}{0:020d}", Entry({"etag": '"e"', "content-length": "0", **meta}, b""), ticket())
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 0.6 * max_bytes < taken_bytes < 1.1 * max_bytes


def test_a_change_drops_its_key_and_no_other() -> None:
    memory = MemoryTier(1 << 20, max_object_bytes=1000)
    memory.drop_changed(Digest(5))
    for hash_ in _HASHES[:3]:
        memory.put(hash_, entry(), ticket(5))

    memory.drop_changed(Digest(6, (prefix_of(_HASHES[1]),)))

    assert [hash_ for hash_ in _HASHES if memory.get(hash_)] == [_HASHES[0], _HASHES[2]]


def test_a_gap_in_the_log_drops_everything() -> None:
    memory = MemoryTier(1 << 20, max_object_bytes=1000)
    memory.drop_changed(Digest(5))
    memory.put(_HASHES[0], entry(), ticket(5))

    memory.drop_changed(Digest(7, (prefix_of(_HASHES[1]),)))

    assert memory.get(_HASHES[0]) is None


@pytest.mark.parametrize(
    ("sequence", "is_kept"), [(6, True), (5, True), (4, False), (3, False), (None, False)], ids=str
)
def test_a_load_that_a_change_overtook_is_not_kept(sequence: int | None, is_kept: bool) -> None:
    memory = MemoryTier(1 << 20, max_object_bytes=1000)
    memory.drop_changed(Digest(6, (prefix_of(_HASHES[0]), prefix_of(_HASHES[1]))))  # changes 5 and 6

    assert memory.put(_HASHES[0], entry(), ticket(sequence)) is is_kept


def test_two_keys_with_one_prefix_take_each_others_place_and_never_each_others_object() -> None:
    memory = MemoryTier(1 << 20, max_object_bytes=1000)
    first, second = "0" * 32, "0" * 31 + "1"
    memory.put(first, entry(1), ticket())
    missed = memory.get(second)
    memory.put(second, entry(2), ticket())
    kept = memory.get(second)

    assert missed is None
    assert memory.get(first) is None
    assert kept is not None
    assert kept.entry.size_bytes == 2


@pytest.mark.slow
def test_threads_may_share_a_memory() -> None:
    memory = MemoryTier(30_000, max_object_bytes=1000)
    errors: list[BaseException] = []

    def use() -> None:
        try:
            for number in range(3000):
                memory.put(_HASHES[number % 20], entry(number % 1000), ticket())
                memory.get(_HASHES[number * 7 % 20])
                memory.drop_changed(Digest())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
