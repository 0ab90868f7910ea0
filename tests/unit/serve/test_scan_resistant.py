"""The scan-resistant cache: bounded in bytes, and as good as LRU while a scan passes through."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from typing import Any

import pytest
from cachetools import LRUCache
from hypothesis import given
from hypothesis import strategies as st

from burstcache.adapters.clock import Instant
from burstcache.core.keys import key_hash
from burstcache.core.slices import SliceNames, Version
from burstcache.serve.memory_tier import MemoryTier, Ticket
from burstcache.serve.scan_resistant import ScanResistantCache
from burstcache.serve.slice_memory import SliceMemory
from burstcache.serve.slices import Slices
from burstcache.web.entry import Entry
from support.clock import ManualClock
from support.waiting import LIMIT_S

_CAPACITY = 1000
_COLD = 10**6  # keys from here on are read once
_WARMING, _COUNTED = 10_000, 20_000  # reads
_SLICE, _OVERHEAD = 4096, 512  # of a slice and of an entry in memory [bytes]
_QUARTER = _SLICE // 4
_SMALL = Entry({"content-length": "1000"}, bytes(1000))

steps = st.lists(st.tuples(st.sampled_from(["get", "put", "pop"]), st.integers(0, 9), st.integers(1, 120)), max_size=60)


@given(steps)
def test_a_value_is_the_last_one_put_and_the_bound_holds(steps: list[tuple[str, int, int]]) -> None:
    cache: ScanResistantCache[int, int] = ScanResistantCache(100)
    last: dict[int, int] = {}
    for number, (step, key, size_bytes) in enumerate(steps):
        if step == "get":
            assert cache.get(key) in (last.get(key), None)
        elif step == "pop":
            cache.pop(key)
            last.pop(key, None)
            assert cache.get(key) is None
        elif cache.put(key, number, size_bytes):
            last[key] = number
            assert cache.get(key, is_counted=False) == number
        else:
            assert size_bytes > 100
        assert 0 <= cache.size_bytes <= 100


@pytest.mark.parametrize("others", [0, 20], ids=["put again", "moved by evictions"])
def test_a_value_is_never_absent_while_it_is_put_again_or_moves(others: int, frequent_switches: None) -> None:
    """A reader that misses a head for a moment sends a GET to S3."""
    cache: ScanResistantCache[int, int] = ScanResistantCache(_CAPACITY)
    cache.put(0, 0, 10)
    is_read = Event()

    def put() -> None:
        for number in count(1):
            if is_read.is_set():
                return
            cache.put(0, number, 10)
            for other in range(others):
                cache.get(0)
                cache.put(number * others + other, number, 50)

    with ThreadPoolExecutor(1) as threads:
        putting = threads.submit(put)
        try:
            assert None not in {cache.get(0) for _ in range(100_000)}
        finally:
            is_read.set()
        putting.result(LIMIT_S)


@given(steps)
def test_the_size_is_that_of_the_values(steps: list[tuple[str, int, int]]) -> None:
    cache: ScanResistantCache[int, int] = ScanResistantCache(100)
    for step, key, size_bytes in steps:
        if step == "put":
            cache.put(key, size_bytes, size_bytes)
        elif step == "pop":
            cache.pop(key)
        else:
            cache.get(key)

    sizes = [size for key in range(10) if (size := cache.get(key, is_counted=False)) is not None]
    assert cache.size_bytes == sum(sizes)
    cache.remove(lambda size: size % 2 == 0)
    assert cache.size_bytes == sum(size for size in sizes if size % 2)


def hit_rate(read: Callable[[int], bool], *, hot_keys: int, scan_keys: int) -> float:
    """Return the hit rate of Zipf-distributed reads of hot keys, while a scan reads new keys in between.

    Args:
        read: Reads a key, and returns whether it is a hit. The scan's keys begin at `_COLD`.
        hot_keys: Number of keys that are read again and again.
        scan_keys: Number of the scan's keys. Each follows a read of a hot key.
    """
    chosen, cold = random.Random(1), count(_COLD)
    reads = chosen.choices(range(hot_keys), [(rank + 1) ** -0.8 for rank in range(hot_keys)], k=_WARMING + _COUNTED)
    hits = 0
    for number, key in enumerate(reads):
        hits += read(key) and number >= _WARMING
        if _WARMING <= number < _WARMING + scan_keys:
            read(next(cold))
    return hits / _COUNTED


def through_lru(max_bytes: int, size_bytes: Callable[[int], int] = lambda key: 1) -> Callable[[int], bool]:
    """Return a read through a cache of keys with LRU."""
    cache: LRUCache[int, int] = LRUCache(max_bytes, size_bytes)

    def read(key: int) -> bool:
        is_hit = cache.get(key) is not None
        if not is_hit:
            cache[key] = key
        return is_hit

    return read


def through_scan_resistant() -> Callable[[int], bool]:
    """Return a read through a scan-resistant cache of keys."""
    cache: ScanResistantCache[int, int] = ScanResistantCache(_CAPACITY)

    def read(key: int) -> bool:
        is_hit = cache.get(key) is not None
        if not is_hit:
            cache.put(key, key, 1)
        return is_hit

    return read


@pytest.mark.parametrize("hot_keys", [800, 2000])
def test_a_scan_of_ten_times_the_capacity_costs_a_hot_set_no_hits(hot_keys: int) -> None:
    undisturbed = hit_rate(through_lru(_CAPACITY), hot_keys=hot_keys, scan_keys=0)

    assert hit_rate(through_scan_resistant(), hot_keys=hot_keys, scan_keys=10 * _CAPACITY) > undisturbed - 0.02
    assert hit_rate(through_lru(_CAPACITY), hot_keys=hot_keys, scan_keys=10 * _CAPACITY) < undisturbed - 0.05


class Ranges:
    """Reads of a bucket's ranges and small objects, which share one memory. Even hot keys are ranges.

    Each of these ranges is a quarter of a slice, anywhere in it. The scan reads another object in quarters, in order.
    """

    def __init__(self, max_bytes: int) -> None:
        source: Any = Zeros()
        self._small = MemoryTier(max_bytes, max_object_bytes=_SLICE)
        self._slices = Slices(source, SliceNames("", "bucket"), ManualClock(), memory=SliceMemory(self._small.cache))
        self._chosen = random.Random(2)

    def read(self, key: int) -> bool:
        """Read a key, and return whether memory had it."""
        if key >= _COLD:
            return self._read_range("scanned", (key - _COLD) * _QUARTER)
        if key % 2 == 0:
            return self._read_range("hot", key * _SLICE + self._chosen.randrange(_SLICE - _QUARTER))
        hash_ = key_hash(str(key))
        is_hit = self._small.get(hash_) is not None
        if not is_hit:
            self._small.put(hash_, _SMALL, Ticket(0, Instant(1, 1)))
        return is_hit

    def close(self) -> None:
        """End the threads."""
        self._slices.close()

    def _read_range(self, key: str, start: int) -> bool:
        return self._slices.read(Version(key, key, '"1"', 1 << 40), start, start + _QUARTER)[1] == "memory"


class Zeros:
    """S3 with objects of zeros."""

    tier = "s3"

    def check_usable(self, version: Version) -> None:
        pass

    def read(
        self,
        version: Version,
        start: int,
        into: memoryview,
        stops: Sequence[int],
        reached: Callable[[int, str], object],
    ) -> None:
        for stop in stops:
            reached(stop, "s3")

    def close(self) -> None:
        pass


def test_a_scan_of_ranges_costs_hot_ranges_and_small_objects_no_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.core.slices.SLICE_BYTES", _SLICE)
    max_bytes, hot_keys = 400 * _SLICE, 800

    def size_bytes(key: int) -> int:
        return len(_SMALL.body) + _OVERHEAD if key % 2 and key < _COLD else _SLICE + _OVERHEAD

    undisturbed = hit_rate(through_lru(max_bytes, size_bytes), hot_keys=hot_keys, scan_keys=0)
    ranges = Ranges(max_bytes)
    try:
        scanned = hit_rate(ranges.read, hot_keys=hot_keys, scan_keys=10 * max_bytes // _QUARTER)
    finally:
        ranges.close()

    assert scanned > undisturbed - 0.02


def test_a_value_that_is_read_twice_on_probation_stays() -> None:
    cache: ScanResistantCache[str, int] = ScanResistantCache(10)
    cache.put("hot", 1, 1)
    cache.get("hot")
    for number in range(100):
        cache.put(f"cold-{number}", number, 1)

    assert cache.get("hot") == 1


def test_a_value_that_returns_soon_after_its_eviction_skips_the_probation() -> None:
    cache: ScanResistantCache[str, int] = ScanResistantCache(10)
    for name in ("returning", *(f"cold-{number}" for number in range(10)), "returning"):
        cache.put(name, 1, 1)
    for number in range(10, 30):
        cache.put(f"cold-{number}", 1, 1)

    assert cache.get("returning") == 1


def test_a_read_that_is_not_counted_keeps_nothing() -> None:
    cache: ScanResistantCache[str, int] = ScanResistantCache(10)
    cache.put("continued", 1, 1)
    for number in range(20):
        cache.get("continued", is_counted=False)
        cache.put(f"cold-{number}", 1, 1)

    assert cache.get("continued") is None
