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
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.traces.trace import Trace

# They take 1 GB in memory while they are sorted, and a search over them takes minutes.
MOST_REQUESTS = 32_000_000
_RANGE = 2**64
_NINETEEN_OF_20 = 1.96  # standard deviations
_SHARE, _STEPS = 0.5, 20  # of hits for which the error is given; halvings until the time for it is found


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
    """Return how far a share of hits of a half or more is off at most, in 19 of 20 samples like this one (0 to 1).

    The misses of the log are those of the sample divided by its rate, and the rest of all requests, whose number is
    known, are hits (SHARDS-adj): the variance is that of a sum over keys which are drawn independently,
    (1 - R) / R² Σ m², where m is how often a key misses. An LRU of some size answers about the requests that come
    within some time after the former for their key (Che's approximation), so m is counted for the time that makes half
    of the requests hits, or as many as can be. Smaller shares are less certain: there, the most requested keys miss,
    too.

    Source:
        Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015; Che, Tung, Wang,
        "Hierarchical web caching systems", JSAC 2002.
    """
    import numpy as np

    if trace.sample is None or trace.key_ids is None or not len(trace):
        return 0.0
    rate, all_requests = trace.sample.rate, trace.sample.requests
    order = np.argsort(trace.key_ids, kind="stable")
    key_ids, gaps_us = trace.key_ids[order], np.diff(trace.arrivals_us[order])
    is_repeat = np.concatenate(([False], key_ids[1:] == key_ids[:-1]))
    # The ranges of an object are sampled together: it is objects that are drawn independently.
    objects = key_ids if not trace.objects else np.unique(trace.objects, return_inverse=True)[1][key_ids]

    def misses(within_us: float) -> NDArray[np.float64]:
        is_hit = is_repeat.copy()
        is_hit[1:] &= gaps_us <= within_us
        return np.bincount(objects[~is_hit]).astype(np.float64)

    shorter_us, longer_us = 1.0, float(trace.arrivals_us[-1] - trace.arrivals_us[0]) + 2
    for _ in range(_STEPS):
        middle_us = (shorter_us * longer_us) ** 0.5
        if 1 - misses(middle_us).sum() / (rate * all_requests) >= _SHARE:
            longer_us = middle_us
        else:
            shorter_us = middle_us
    deviation = float(np.sqrt((1 - rate) * (misses(longer_us) ** 2).sum())) / (rate * all_requests)
    return min(1.0, _NINETEEN_OF_20 * deviation)
