"""Parallel parts: any part of an object, read several of its slices at a time, and the tiers that they needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait

from burstcache.core.pool.slices import extents

AT_ONCE = 4  # parts of one read in flight
TIERS = ("memory", "disk", "lambda", "redis", "express", "pool", "s3")  # in the order in which a reader tries them

Begin = Callable[[int, memoryview], "Future[str]"]


def slowest(tiers: Iterable[str]) -> str:
    """Return the last of some tiers in the order in which a reader tries them. Without any, memory."""
    return max(tiers, key=TIERS.index, default=TIERS[0])


def read_parts(begin: Begin, start: int, into: memoryview) -> str:
    """Read any part of an object, several of its slices at a time, and return the slowest tier that was needed.

    Args:
        begin: Begins to read a part of at most 8 MiB.
        start: Offset of the part in the object [bytes].
        into: Destination, of the part's length. Nothing is written to it after this has returned or raised.

    Raises:
        BurstcacheError: As the futures of `begin` do.
    """
    under_way: deque[Future[str]] = deque()
    tiers = set[str]()
    try:
        for first, end in extents(start, start + len(into)):
            if len(under_way) == AT_ONCE:
                tiers.add(under_way.popleft().result())
            under_way.append(begin(first, into[first - start : end - start]))
        while under_way:
            tiers.add(under_way.popleft().result())
    finally:
        wait(under_way)
    return slowest(tiers)
