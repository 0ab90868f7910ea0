"""Sampling by key, so that a log of any length fits into memory and is simulated in the time of a short one.

A key belongs to the sample if its hash is below a threshold: it has all of its requests or none, in every file and in
every process. Where the threshold adapts, it is halved as often as the sample grows too long: what remains depends on
the log alone, not on the order of its files.

Source:
    Waldspurger, Park, Garthwaite, Ahmad, "Efficient MRC construction with SHARDS", FAST 2015: `hash(key) mod P < T`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace

# They take 1 GB in memory while they are sorted, and a search over them takes minutes.
MOST_REQUESTS = 32_000_000
_RANGE = 2**64
_NINETEEN_OF_20 = 1.96  # standard deviations


def rank_of(key: bytes) -> int:
    """Return a key's place among all keys: uniform, and independent of the hash that chooses nodes."""
    return int.from_bytes(blake2b(key, digest_size=8, person=b"sample").digest(), "little")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Which keys belong to a sample: those whose place is below `below` of 2^64."""

    below: int = _RANGE
    most_requests: int | None = None  # more than these lower the threshold; None: never

    @classmethod
    def of(cls, rate: float | None, most_requests: int = MOST_REQUESTS) -> Threshold:
        """Return the threshold for a share of the keys; None for as many as make at most `most_requests`.

        Raises:
            InvalidSettingError: The share is not above 0 and at most 1.
        """
        if rate is None:
            return cls(_RANGE, most_requests)
        if not 0 < rate <= 1:
            raise InvalidSettingError(f"a share of {rate} of the keys: expected more than 0 and at most 1")
        return cls(round(rate * _RANGE))

    @property
    def rate(self) -> float:
        """The share of the keys that belong to the sample."""
        return self.below / _RANGE

    @property
    def is_whole(self) -> bool:
        """Whether every key belongs to it."""
        return self.below >= _RANGE

    def has(self, key: bytes) -> bool:
        """True if a key belongs to the sample."""
        return self.below >= _RANGE or rank_of(key) < self.below


def expected_error(trace: Trace) -> float:
    """Return how far a share of hits, estimated from a sample, is off at most in 19 of 20 samples (0 to 1).

    The misses of the log are those of the sample divided by its rate, and the rest of all requests, whose number is
    known, are hits (SHARDS-adj): the variance is that of a sum over keys which are drawn independently,
    (1 - R) / R² Σ m², where m is how often a key misses. An LRU of some size answers about the requests that come
    within some time after the former for their key (Che's approximation), so m is counted for times that let 10 to 90 %
    of the repeated requests hit, and the largest error of these is returned.

    Source:
        Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015; Che, Tung, Wang,
        "Hierarchical web caching systems", JSAC 2002.
    """
    import numpy as np

    if trace.sample is None or trace.key_ids is None or not len(trace):
        return 0.0
    rate = trace.sample.rate
    order = np.argsort(trace.key_ids, kind="stable")
    key_ids, arrivals_us = trace.key_ids[order], trace.arrivals_us[order]
    is_repeat = key_ids[1:] == key_ids[:-1]
    gaps_us = np.diff(arrivals_us)
    keys = int(key_ids[-1]) + 1
    first = np.bincount(key_ids, minlength=keys) > 0
    times_us = np.quantile(gaps_us[is_repeat], np.arange(0.1, 1, 0.1)) if is_repeat.any() else np.zeros(1)
    worst = 0.0
    for time_us in times_us:
        misses = first + np.bincount(key_ids[1:][is_repeat & (gaps_us > time_us)], minlength=keys)
        worst = max(worst, float(np.sqrt((1 - rate) * (misses.astype(np.float64) ** 2).sum())))
    return min(1.0, _NINETEEN_OF_20 * worst / (rate * trace.sample.requests))
