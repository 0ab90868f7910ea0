"""How often readers read the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from benchmarks.client.common import print_table
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_reader import DigestReader
from burstcache.core.digest import Digest

_COUNTED_GETS = 200_000


def table() -> None:
    """Print how often readers of 100 keys read the table for a million GETs, by a clock that a count moves."""
    rows = []
    for rate_per_s in (1, 10, 100, 1_000, 10_000):
        clock, queries = _Count(rate_per_s), itertools.count()
        digest = DigestReader(partial(_empty_digest, queries), clock, start=lambda work: work())
        for number in range(_COUNTED_GETS):
            clock.number = number
            digest.route(f"{number % 100:032x}")
        rows.append([f"{rate_per_s:,}", f"{next(queries) * 1_000_000 // _COUNTED_GETS:,}"])
    print("\n## Reads of the table per million GETs of one reader\n")
    print_table(["GETs/s", "queries of the digest"], rows)


def _empty_digest(queries: Iterator[int]) -> Digest:
    next(queries)
    return Digest()


class _Count(SystemClock):
    """The time of a reader that has made a number of GETs at a rate."""

    def __init__(self, rate_per_s: int) -> None:
        self.number, self._rate_per_s = 0, rate_per_s

    def now_us(self) -> int:
        """Return the time since the first GET [us]."""
        return round(self.monotonic_s() * 1_000_000)

    def monotonic_s(self) -> float:
        """Return the time since the first GET [s]."""
        return self.number / self._rate_per_s
