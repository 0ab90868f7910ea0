"""Trace generators. The same seed yields the same trace.

Source:
    `docs/understand/simulation.md`, "Traces"; thesis, section 5.1.2 (poisson, spike).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from random import Random

from burstcache.core.parameters import US_PER_S


def poisson(seed: int, rate_per_min: float, duration_s: float) -> list[int]:
    """Return the arrivals of a Poisson process [us] within `duration_s`."""
    random = Random(seed)
    return [_us(t) for t in _stay(random, rate_per_min, 0.0, duration_s)]


def spike(seed: int, std: float, n: int) -> list[int]:
    """Return `n` normally distributed arrivals [us] with standard deviation `std` [s], shifted to start at 0."""
    random = Random(seed)
    return _from_zero([random.normalvariate(0.0, std) for _ in range(n)])


def mmpp(seed: int, on: float, off: float, mean_on: float, mean_off: float, dur: float) -> list[int]:
    """Return the arrivals [us] of a Poisson process that switches between two rates and starts with the quiet rate.

    Args:
        seed: Seed of the random numbers.
        on: Rate in the busy state [1/min].
        off: Rate in the quiet state [1/min], 0 for none.
        mean_on: Mean time in the busy state [s].
        mean_off: Mean time in the quiet state [s].
        dur: Length of the trace [s].
    """
    random = Random(seed)
    arrivals: list[float] = []
    t, is_on = 0.0, False
    while t < dur:
        rate, mean = (on, mean_on) if is_on else (off, mean_off)
        end = min(t + random.expovariate(1 / mean), dur)
        if rate > 0:
            arrivals.extend(_stay(random, rate, t, end))
        t, is_on = end, not is_on
    return [_us(x) for x in arrivals]


def diurnal(seed: int, mean: float, depth: float, period: float, dur: float) -> list[int]:
    """Return arrivals [us] with a rate that varies over the day: `mean` * (1 - `depth` cos(2 pi t / `period`)).

    Args:
        seed: Seed of the random numbers.
        mean: Mean rate [1/min].
        depth: Relative amplitude of the rate, 0 to 1.
        period: Length of a day [s].
        dur: Length of the trace [s].
    """
    random = Random(seed)
    lam_max = mean * (1 + depth) / 60
    arrivals: list[int] = []
    t = random.expovariate(lam_max)
    while t <= dur:
        if random.random() * lam_max < mean * (1 - depth * math.cos(2 * math.pi * t / period)) / 60:
            arrivals.append(_us(t))
        t += random.expovariate(lam_max)
    return arrivals


def spikes_train(seed: int, std: float, n: int, count: int, spacing: float) -> list[int]:
    """Return `count` spikes of `n` arrivals each [us], `spacing` ± 20 % apart [s], shifted to start at 0."""
    random = Random(seed)
    arrivals: list[float] = []
    centre = 0.0
    for _ in range(count):
        centre += spacing * (0.8 + 0.4 * random.random())
        arrivals.extend(random.normalvariate(centre, std) for _ in range(n))
    return _from_zero(arrivals)


def zipf(
    seed: int, rate_per_min: float, duration_s: float, keys: int, exponent: float = 1.0
) -> tuple[list[int], list[int]]:
    """Return a Poisson process over many keys, with popularity proportional to 1 / rank^`exponent`.

    Args:
        seed: Seed of the random numbers. The arrivals equal those of `poisson` with the same seed.
        rate_per_min: Rate over all keys [1/min].
        duration_s: Length of the trace [s].
        keys: Number of keys.
        exponent: Skew of popularity, 0 for equal popularity.

    Returns:
        The arrivals [us] and their keys. Key 0 is the most popular.
    """
    arrivals_us = poisson(seed, rate_per_min, duration_s)
    weights = list(accumulate(rank**-exponent for rank in range(1, keys + 1)))
    # A separate random generator keeps the arrivals independent of the number of keys.
    return arrivals_us, Random(f"{seed} keys").choices(range(keys), cum_weights=weights, k=len(arrivals_us))


def _stay(random: Random, rate_per_min: float, start_s: float, end_s: float) -> Iterator[float]:
    """Yield the arrivals of a Poisson process after `start_s` and up to `end_s` [s]."""
    t = start_s + random.expovariate(rate_per_min / 60)
    while t <= end_s:
        yield t
        t += random.expovariate(rate_per_min / 60)


def _from_zero(arrivals_s: list[float]) -> list[int]:
    arrivals_s.sort()
    return [_us(t - arrivals_s[0]) for t in arrivals_s]


def _us(t_s: float) -> int:
    return round(t_s * US_PER_S)
