"""Writes to the origin, told of by writers and by S3: every copy that is older is let go, then readers hear of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.outlasting import outlast_readers
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Refreshed
from burstcache.core.messages.operations import FollowWrite
from burstcache.core.phases import Tier
from burstcache.core.rows import KeyRow


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """Follows writes to objects of the bucket; what takes part in none of this costs a write nothing."""

    keys: KeyTable
    nodes: NodeTable
    node_names: Sequence[str]
    digest: DigestTable
    redis_control: Callable[[FollowWrite], object]  # raises what it fails with
    express: ExpressCopies | None  # None: there are no copies
    clock: Clock

    def follow(self, key: str) -> Refreshed:
        """Have the copies of an object that was written or deleted follow, then tell readers of the change.

        In this order, from the lowest tier up: a reader that fills a tier from one below finds the new object there or
        comes too late, and a reader that knows of the change finds no old copy in a tier any more. What readers keep in
        their memories nobody knows, so each change is announced, and a failed event once more when it comes again.

        Raises:
            FunctionFailedError: Redis control has failed: an old copy may still be read, so this must be called again.
            ServiceError: The same, or readers have not been told.
        """
        hash_ = key_hash(key)
        try:
            return self._follow_in_tiers(hash_, key)
        finally:
            self.digest.announce(hash_, now_us=self.clock.now_us())

    def _follow_in_tiers(self, hash_: str, key: str) -> Refreshed:
        """Take every step, whether or not the one before it failed."""
        try:
            if self.express is not None:
                self.express.bury(hash_)
        finally:
            refreshed = self._follow_in_network(hash_, key)
        return refreshed

    def _follow_in_network(self, hash_: str, key: str) -> Refreshed:
        """Have Redis control look where only it can, if something may be there.

        A life and a node that are not seen here begin later, and load what is written now.
        """
        row = self.keys.read(hash_)
        was_misleading, since_s = row is not None and self._correct_digest(row), self.clock.monotonic_s()
        may_be_held = row is not None and row.may_be_held(self.clock.now_us())
        refreshed = Refreshed(refreshed="", copies=0)
        if may_be_held or any(node.is_home_of(hash_) for node in self.nodes.read_many(self.node_names)):
            refreshed = cast(Refreshed, self.redis_control(FollowWrite(op="follow_write", key=key)))
        if was_misleading:
            outlast_readers(self.digest, hash_, self.clock, since_s=since_s)
        return refreshed

    def _correct_digest(self, row: KeyRow) -> bool:
        """Take from the digest a route that the row does not have, or no longer: that tier hears of no write.

        Step Functions ends lives in rows only, and a write of the digest may have failed. The cache function or the
        node of a former life may still answer, so no reader that knows of this write may ask it.

        Returns:
            True if what it showed was of a life that is over: until readers have it anew they may ask that tier.
        """
        shown = self.digest.read_key(row.hash)
        if shown is None or not shown.tier or (shown.epoch, shown.tier) == (row.epoch, _tier_now(row, self.clock)):
            return False
        row = self.keys.read(row.hash) or row  # now it is not older than what is shown
        if shown.epoch < row.epoch:
            self.digest.remove_key(row.hash, shown)
            return True
        self.digest.show_key(replace(row, tier=_tier_now(row, self.clock)))
        return row.phase == "s3"  # while the life goes on, each of its tiers hears of the write


def _tier_now(row: KeyRow, clock: Clock) -> Tier:
    return row.tier if row.is_live(clock.now_us()) else ""
