"""Retries of compare-and-set writes, and reports that stay pending instead: how many writers a second one row takes.

A writer reads the row, waits for its function, and writes on the condition that the version is unchanged. About a key,
the loser pauses and reads again. A pause is uniform up to a limit that doubles with each attempt. About a node, the
loser adds its report to the row as pending, and the next writer counts it. Arrivals are a Poisson process.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from random import Random

from burstcache_sim.scale.items import use_bytes, write_units

# As in `burstcache.control.use_scheduler` and `burstcache.adapters.clock`, compared by a test.
ATTEMPTS, FIRST_PAUSE_S = 8, 0.01
WINDOW_S = 0.025  # from the read to the write, in a function with 0.14 vCPU (assumed)
GIVEN_UP_SHARE = 0.01  # of writers, at the limit
_LENGTH_S = 60.0
_RATES_PER_S = tuple(range(5, 105, 5))
_PENDING_RATES_PER_S, _PENDING_LENGTH_S = range(20, 1_020, 20), 10.0


@dataclass(frozen=True, slots=True)
class Contention:
    """The outcome of many writers on one row."""

    written: int
    given_up: int
    attempts: int

    @property
    def given_up_share(self) -> float:
        """Share of the writers that gave up."""
        return self.given_up / max(self.written + self.given_up, 1)

    @property
    def attempts_per_writer(self) -> float:
        """Mean attempts of a writer."""
        return self.attempts / max(self.written + self.given_up, 1)


def contend(
    rate_per_s: float,
    *,
    window_s: float = WINDOW_S,
    attempts: int = ATTEMPTS,
    first_pause_s: float = FIRST_PAUSE_S,
    length_s: float = _LENGTH_S,
    seed: int = 1,
) -> Contention:
    """Simulate writers on one row.

    Args:
        rate_per_s: Writers a second.
        window_s: Time from a writer's read to its write [s].
        attempts: Attempts before a writer gives up.
        first_pause_s: Longest pause after the first attempt. 0: no pauses [s].
        length_s: Simulated time [s].
        seed: Seed of the random numbers.
    """
    random, numbers = Random(seed), count()
    events: list[tuple[float, int, int, int | None]] = []  # time, number, attempt, version read (None: reads now)
    arrival_s = random.expovariate(rate_per_s)
    while arrival_s < length_s:
        events.append((arrival_s, next(numbers), 1, None))
        arrival_s += random.expovariate(rate_per_s)
    heapq.heapify(events)
    version = given_up = tried = 0
    while events:
        now_s, _, attempt, seen = heapq.heappop(events)
        if seen is None:
            tried += 1
            heapq.heappush(events, (now_s + window_s, next(numbers), attempt, version))
        elif seen == version:
            version += 1
        elif attempt == attempts:
            given_up += 1
        else:
            pause_s = random.random() * first_pause_s * 2 ** (attempt - 1)
            heapq.heappush(events, (now_s + pause_s, next(numbers), attempt + 1, None))
    return Contention(written=version, given_up=given_up, attempts=tried)


@lru_cache
def most_writers_per_s(
    *, window_s: float = WINDOW_S, attempts: int = ATTEMPTS, first_pause_s: float = FIRST_PAUSE_S
) -> int:
    """Return the highest rate, in steps of 5, at which at most 1 % of the writers give up."""
    most = _RATES_PER_S[0]
    for rate_per_s in _RATES_PER_S:
        contention = contend(rate_per_s, window_s=window_s, attempts=attempts, first_pause_s=first_pause_s)
        if contention.given_up_share > GIVEN_UP_SHARE:
            break
        most = rate_per_s
    return most


@dataclass(frozen=True, slots=True)
class PendingUse:
    """The outcome of many reports about one node.

    Attributes:
        reports: Reports, all of which are counted.
        lost: Reports that lost the race and were added as pending.
        units: Write units, failed writes included.
        most_pending: Most reports that were pending at once.
    """

    reports: int
    lost: int
    units: int
    most_pending: int


@lru_cache
def pend(rate_per_s: float, *, window_s: float = WINDOW_S, length_s: float = _PENDING_LENGTH_S) -> PendingUse:
    """Simulate reports about one node.

    Args:
        rate_per_s: Reports a second.
        window_s: Time from a report's read to its write [s].
        length_s: Simulated time [s].
    """
    random = Random(1)
    arrivals_s: list[float] = []
    arrival_s = random.expovariate(rate_per_s)
    while arrival_s < length_s:
        arrivals_s.append(arrival_s)
        arrival_s += random.expovariate(rate_per_s)
    # Each report reads once and writes once, a window later, so two sorted lists are all events.
    events = sorted(
        [(at_s, 1, number) for number, at_s in enumerate(arrivals_s)]
        + [(at_s + window_s, 0, number) for number, at_s in enumerate(arrivals_s)]
    )
    seen: dict[int, tuple[int, frozenset[int]]] = {}
    pending: set[int] = set()
    version = lost = units = most_pending = 0
    for _, reads, number in events:
        if reads:
            seen[number] = version, frozenset(pending)
            continue
        read_version, read_pending = seen.pop(number)
        units += write_units(use_bytes(len(pending)))
        if read_version == version:
            version, pending = version + 1, pending - read_pending
        else:
            lost += 1
            pending.add(number)
            most_pending = max(most_pending, len(pending))
            units += write_units(use_bytes(len(pending)))
    return PendingUse(len(arrivals_s), lost, units, most_pending)


@lru_cache
def most_reports_per_s(units_per_s: int, *, window_s: float = WINDOW_S) -> int:
    """Return the highest rate of reports that one node's use takes, in steps of 20.

    Args:
        units_per_s: Write units of the item's partition.
        window_s: Time from a report's read to its write [s].
    """
    fine = bisect_left(
        _PENDING_RATES_PER_S,
        True,
        key=lambda rate: pend(rate, window_s=window_s).units > units_per_s * _PENDING_LENGTH_S,
    )
    return int(_PENDING_RATES_PER_S[max(fine - 1, 0)])
