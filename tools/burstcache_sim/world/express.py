"""Copies in S3 Express as they are put, read and deleted: `core.express` on simulated time, from a midnight on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from burstcache.core.express import LEAST_US, CopyCounts, ExpressRule, expires_us
from burstcache.core.parameters import US_PER_S
from burstcache_sim.world.result import ExpressUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CopyRules(NamedTuple):
    """What a rule says about each of several objects: it follows from their sizes."""

    copy_at: NDArray[np.int64]
    keep_days: NDArray[np.int64]
    copy_usd: NDArray[np.float64]
    saved_usd: NDArray[np.float64]


def copy_rules(rule: ExpressRule, sizes_bytes: NDArray[np.int64]) -> CopyRules:
    """Return what a rule says about objects of these sizes, to the last bit as the rule itself does for each."""
    import numpy as np

    sizes, places = np.unique(sizes_bytes, return_inverse=True)
    each: Any = sizes  # the rule's arithmetic is that of arrays, too
    saved_usd: NDArray[np.float64] = np.asarray(rule.saved_usd(each))
    copy_usd: NDArray[np.float64] = np.asarray(rule.copy_usd(each))
    pays = saved_usd > 0
    copy_at = np.zeros(len(sizes), np.int64)
    copy_at[pays] = np.ceil(copy_usd[pays] / saved_usd[pays])
    return CopyRules(copy_at[places], _keep_days(rule, sizes)[places], copy_usd[places], saved_usd[places])


def _keep_days(rule: ExpressRule, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how long S3 keeps a copy of each of some ascending sizes, of which larger ones are kept for less time."""
    import numpy as np

    days = np.empty(len(sizes), np.int64)
    pieces = [(0, len(sizes))]
    while pieces:
        begin, end = pieces.pop()
        if begin < end:
            first, last = rule.keep_days(int(sizes[begin])), rule.keep_days(int(sizes[end - 1]))
            if first == last or end - begin == 1:
                days[begin:end] = first
            else:
                middle = (begin + end) // 2
                pieces += [(begin, middle), (middle, end)]
    return days


@dataclass(slots=True)
class _Copy:
    size_bytes: int
    put_us: int
    expires_us: int


@dataclass(slots=True)
class Express:
    """A bucket of one zone, asked for whatever no memory serves. Readers count together."""

    rule: ExpressRule
    _counts: CopyCounts[int] = field(init=False)
    _copies: dict[int, _Copy] = field(default_factory=dict)
    _asks: int = 0
    _puts: int = 0
    _put_bytes: int = 0
    _read_bytes: int = 0
    _byte_s: int = 0

    def __post_init__(self) -> None:
        self._counts = CopyCounts(self.rule, {})

    def serves(self, key: int, at_us: int, size_bytes: int) -> bool:
        """Return whether a copy serves a request; S3 does otherwise, and perhaps a copy is made."""
        self._asks += 1
        copy = self._copies.get(key)
        if copy is not None and at_us < copy.expires_us:
            self._read_bytes += copy.size_bytes
            self._counts.read_copy(key, copy.size_bytes)
            return True
        if copy is not None:
            self._remove(key, None)
        if self._counts.read_s3(key, size_bytes):
            self._put(key, at_us, size_bytes)
        return False

    def close(self, until_us: int | None) -> ExpressUse:
        """Return what all this takes; copies that are still there wait for their end, or up to the horizon."""
        for key in list(self._copies):
            self._remove(key, until_us)
        return ExpressUse(self._asks, self._puts, self._put_bytes, self._read_bytes, self._byte_s)

    def _put(self, key: int, at_us: int, size_bytes: int) -> None:
        self._copies[key] = _Copy(size_bytes, at_us, expires_us(at_us, self.rule.keep_days(size_bytes)))
        self._counts.note_put(key)
        self._puts += 1
        self._put_bytes += size_bytes

    def _remove(self, key: int, until_us: int | None) -> None:
        copy = self._copies.pop(key)
        end_us = copy.expires_us if until_us is None else min(copy.expires_us, until_us)
        billed_us = max(end_us - copy.put_us, LEAST_US)
        self._byte_s += copy.size_bytes * -(-billed_us // US_PER_S)
