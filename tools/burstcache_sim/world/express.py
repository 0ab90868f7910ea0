"""S3 Express in simulated time, where `core.express` decides on copies. Time 0 is midnight."""

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
    """A rule's decisions for several objects, based on their sizes."""

    copy_at: NDArray[np.int64]
    keep_days: NDArray[np.int64]
    copy_usd: NDArray[np.float64]
    saved_usd: NDArray[np.float64]


def copy_rules(rule: ExpressRule, sizes_bytes: NDArray[np.int64]) -> CopyRules:
    """Apply a rule to objects of these sizes. The results are bit-identical to applying the rule to each object."""
    import numpy as np

    sizes, places = np.unique(sizes_bytes, return_inverse=True)
    each: Any = sizes  # the rule's arithmetic also works on arrays
    saved_usd: NDArray[np.float64] = np.asarray(rule.saved_usd(each))
    copy_usd: NDArray[np.float64] = np.asarray(rule.copy_usd(each))
    pays = saved_usd > 0
    copy_at = np.zeros(len(sizes), np.int64)
    copy_at[pays] = np.ceil(copy_usd[pays] / saved_usd[pays])
    return CopyRules(copy_at[places], _keep_days(rule, sizes)[places], copy_usd[places], saved_usd[places])


def _keep_days(rule: ExpressRule, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the retention of a copy for each of the ascending sizes [days]. Larger copies are kept for less time."""
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
    """A bucket in one zone that receives all requests not served from memory. All readers share its counts."""

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
        """Return whether a copy serves a request. Otherwise, S3 serves the request, and a copy may be made."""
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
        """Return the totals. Remaining copies are billed until they expire, but not beyond the horizon."""
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
