"""Sampling of keys, so that a long log fits into memory and is simulated as fast as a short log.

A key is sampled, with all of its requests, if its hash is below a threshold. Every file and process makes the same
choice. An adaptive threshold is halved whenever the sample grows too large. The result does not depend on the file
order.

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

# Sorting this many requests takes 1 GB of memory, and a search for the best settings takes minutes.
MAX_SAMPLE_REQUESTS = 32_000_000
_RANGE = 2**64
_SIGMAS_95 = 1.96  # standard deviations for a 95 % confidence interval
_HIT_SHARE = 0.5  # hit ratio for which the error is estimated
_STEPS = 20  # of the binary search


def key_hash(key: bytes) -> int:
    """Return a key's uniform 64-bit hash, independent of the hash that assigns keys to nodes."""
    return int.from_bytes(blake2b(key, digest_size=8, person=b"sample").digest(), "little")


@dataclass(frozen=True, slots=True)
class Threshold:
    """The hash threshold of a sample, which contains the keys with a 64-bit hash less than `below`."""

    below: int = _RANGE
    most_requests: int | None = None  # more requests lower the threshold (None: no limit)

    @classmethod
    def of(cls, rate: float | None, most_requests: int = MAX_SAMPLE_REQUESTS) -> Threshold:
        """Return the threshold for a share of the keys, or for as many keys as `most_requests` allows if it is None.

        Raises:
            InvalidSettingError: The share is not above 0, or exceeds 1.
        """
        if rate is None:
            return cls(_RANGE, most_requests)
        if not 0 < rate <= 1:
            raise InvalidSettingError(f"a share of {rate} of the keys: expected more than 0 and at most 1")
        return cls(round(rate * _RANGE))

    @property
    def rate(self) -> float:
        """The share of the keys in the sample."""
        return self.below / _RANGE

    @property
    def is_whole(self) -> bool:
        """Whether every key is in the sample."""
        return self.below >= _RANGE

    def has(self, key: bytes) -> bool:
        """Return whether a key is in the sample."""
        return self.below >= _RANGE or key_hash(key) < self.below


def expected_error(trace: Trace) -> float:
    """Return the 95 % error bound (0 to 1) of hit ratios of at least one half in a sample like this one.

    The log's misses are estimated as the sample's misses divided by the sampling rate R. All other requests count as
    hits, since the log's total is known (SHARDS-adj). The variance is that of a sum over independently drawn keys,
    (1 - R) / R² Σ m², where m is a key's number of misses. By Che's approximation, an LRU cache hits if the previous
    request for the key is at most a characteristic time ago. m is counted for the characteristic time at which half
    of the requests hit, or as many as possible. Lower hit ratios are less certain, because the most requested keys
    also miss.

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
    # The independent draws are objects, because an object's ranges are sampled together.
    objects = key_ids if not trace.objects else np.unique(trace.objects, return_inverse=True)[1][key_ids]

    def misses(within_us: float) -> NDArray[np.float64]:
        is_hit = is_repeat.copy()
        is_hit[1:] &= gaps_us <= within_us
        return np.bincount(objects[~is_hit]).astype(np.float64)

    shorter_us, longer_us = 1.0, float(trace.arrivals_us[-1] - trace.arrivals_us[0]) + 2
    for _ in range(_STEPS):
        middle_us = (shorter_us * longer_us) ** 0.5
        if 1 - misses(middle_us).sum() / (rate * all_requests) >= _HIT_SHARE:
            longer_us = middle_us
        else:
            shorter_us = middle_us
    deviation = float(np.sqrt((1 - rate) * (misses(longer_us) ** 2).sum())) / (rate * all_requests)
    return min(1.0, _SIGMAS_95 * deviation)
