"""Retries of compare-and-set writes: how many writers a second one row takes.

A writer reads the row, waits for its function, and writes on the condition that the version is unchanged. The loser
pauses and reads again. Arrivals are a Poisson process. A pause is uniform up to a limit that doubles with each attempt.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from random import Random

# As in `burstcache.control.use_scheduler`, compared by a test.
ATTEMPTS, FIRST_PAUSE_S = 8, 0.01
WINDOW_S = 0.025  # from the read to the write, in a function with 0.14 vCPU (assumed)
GIVEN_UP_SHARE = 0.01  # of writers, at the limit
_LENGTH_S = 60.0
_RATES_PER_S = tuple(range(5, 105, 5))


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
