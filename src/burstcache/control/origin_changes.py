"""Changes of the origin, reported by writers and by S3: invalidation of every older copy, then an announcement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.grace_period import wait_for_readers
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Refreshed
from burstcache.core.messages.operations import FollowWrite
from burstcache.core.phases import Tier
from burstcache.core.rows import KeyRow


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """The invalidation of copies after writes to the bucket. Tiers that cannot have a copy are skipped."""

    keys: KeyTable
    nodes: NodeTable
    node_names: Sequence[str]
    digest: DigestTable
    redis_control: Callable[[FollowWrite], object]  # raises an error if Redis control fails
    express: ExpressCopies | None  # None if the stack makes no copies in S3 Express
    clock: Clock

    def apply_write(self, key: str) -> Refreshed:
        """Invalidate the copies of a written or deleted object, then announce the change to readers.

        Invalidate the tiers from the lowest up. A reader that fills a tier from the tier below gets the new object, or
        its fill comes too late and is rejected. A reader that has seen the announcement finds no old copy in any tier.
        The contents of readers' memories are unknown, so announce every change, even a redelivered change.

        Raises:
            FunctionFailedError: Redis control has failed. An old copy may still be read, so call this method again.
            ServiceError: The invalidation or the announcement has failed. Call this method again.
        """
        hash_ = key_hash(key)
        try:
            return self._invalidate(hash_, key)
        finally:
            self.digest.announce(hash_, now_us=self.clock.now_us())

    def _invalidate(self, hash_: str, key: str) -> Refreshed:
        """Invalidate the copies in every tier, even if one of them fails."""
        try:
            if self.express is not None:
                self.express.put_tombstone(hash_)
        finally:
            refreshed = self._invalidate_in_network(hash_, key)
        return refreshed

    def _invalidate_in_network(self, hash_: str, key: str) -> Refreshed:
        """Invoke Redis control if a tier that only Redis control can reach may have a copy.

        Lives and nodes that start after this check load the new object.
        """
        row = self.keys.read(hash_)
        was_misleading, since_s = row is not None and self._correct_digest(row), self.clock.monotonic_s()
        may_be_held = row is not None and row.may_be_held(self.clock.now_us())
        refreshed = Refreshed(refreshed="", copies=0)
        if may_be_held or any(node.is_home_of(hash_) for node in self.nodes.read_many(self.node_names)):
            refreshed = cast(Refreshed, self.redis_control(FollowWrite(op="follow_write", key=key)))
        if was_misleading:
            wait_for_readers(self.digest, hash_, self.clock, since_s=since_s)
        return refreshed

    def _correct_digest(self, row: KeyRow) -> bool:
        """Correct the digest if it names another tier than the row, since invalidations do not reach that tier.

        When Step Functions ends a life, it updates only the row, and an update of the digest may have failed. The cache
        function or the node of a previous life may still answer, so no reader that has seen this write may use that
        tier.

        Returns:
            True if the route belonged to a life that is over. Readers may use that tier until they read the digest
            again.
        """
        shown = self.digest.read_key(row.hash)
        if shown is None or not shown.tier or (shown.epoch, shown.tier) == (row.epoch, _tier_now(row, self.clock)):
            return False
        row = self.keys.read(row.hash) or row  # read again, so it is at least as new as the route
        if shown.epoch < row.epoch:
            self.digest.remove_key(row.hash, shown)
            return True
        self.digest.show_key(replace(row, tier=_tier_now(row, self.clock)))
        return row.phase == "s3"  # while the life continues, invalidations reach its tiers


def _tier_now(row: KeyRow, clock: Clock) -> Tier:
    return row.tier if row.is_live(clock.now_us()) else ""
