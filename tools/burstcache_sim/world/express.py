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
    """Ask the rule once for each size."""
    import numpy as np

    sizes, places = np.unique(sizes_bytes, return_inverse=True)

    def of_each(answers: list[Any], kind: type) -> NDArray[Any]:
        return np.array(answers, kind)[places]

    return CopyRules(
        copy_at=of_each([rule.copy_at(size) for size in sizes.tolist()], np.int64),
        keep_days=of_each([rule.keep_days(size) for size in sizes.tolist()], np.int64),
        copy_usd=of_each([rule.copy_usd(size) for size in sizes.tolist()], np.float64),
        saved_usd=of_each([rule.saved_usd(size) for size in sizes.tolist()], np.float64),
    )


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
