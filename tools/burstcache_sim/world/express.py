"""Copies in S3 Express as they are made, read and dropped: `core.express` on simulated time."""

from __future__ import annotations

from dataclasses import dataclass, field

from burstcache.core.express import LEAST_US, ExpressRule
from burstcache.core.parameters import US_PER_S
from burstcache_sim.world.result import ExpressUse


@dataclass(slots=True)
class _Copy:
    size_bytes: int
    copied_us: int
    read_us: int  # the newest read; at first when it was made
    drop_after_us: int


@dataclass(slots=True)
class Express:
    """A bucket of one zone, asked for whatever no memory serves. Readers count together."""

    rule: ExpressRule
    _copies: dict[int, _Copy] = field(default_factory=dict)
    _reads: dict[int, int] = field(default_factory=dict)  # from S3, since the key's last copy was dropped
    _asks: int = 0
    _copied: int = 0
    _copied_bytes: int = 0
    _read_bytes: int = 0
    _byte_s: int = 0

    def serves(self, key: int, at_us: int, size_bytes: int) -> bool:
        """Return whether a copy serves a request; S3 does otherwise, and perhaps a copy is made."""
        self._asks += 1
        copy = self._copies.get(key)
        if copy is not None and at_us - copy.read_us <= copy.drop_after_us:
            copy.read_us = at_us
            self._read_bytes += copy.size_bytes
            return True
        if copy is not None:
            self._drop(key, None)
        self._reads[key] = self._reads.get(key, 0) + 1
        if 0 < self.rule.copy_at(size_bytes) <= self._reads[key]:
            self._copies[key] = _Copy(size_bytes, at_us, at_us, self.rule.drop_after_us(size_bytes))
            self._copied += 1
            self._copied_bytes += size_bytes
        return False

    def close(self, until_us: int | None) -> ExpressUse:
        """Return what all this takes; copies that are still there wait for their end, or up to the horizon."""
        for key in list(self._copies):
            self._drop(key, until_us)
        return ExpressUse(self._asks, self._copied, self._copied_bytes, self._read_bytes, self._byte_s)

    def _drop(self, key: int, until_us: int | None) -> None:
        copy = self._copies.pop(key)
        del self._reads[key]
        end_us = copy.read_us + copy.drop_after_us
        end_us = end_us if until_us is None else min(end_us, until_us)
        billed_us = max(end_us - copy.copied_us, LEAST_US)
        self._byte_s += copy.size_bytes * -(-billed_us // US_PER_S)
