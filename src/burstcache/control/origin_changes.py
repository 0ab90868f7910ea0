"""Changes of the origin, reported by writers and by S3: invalidation of every older copy, then an announcement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.control.concurrency import run_concurrently
from burstcache.control.grace_period import wait_for_readers
from burstcache.core.backlog import LATE_S, Batch
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Followed, Refreshed
from burstcache.core.messages.operations import FollowWrites
from burstcache.core.phases import Tier
from burstcache.core.rows import KeyRow


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """The invalidation of copies after writes to the bucket. Tiers that cannot have a copy are skipped."""

    keys: KeyTable
    nodes: NodeTable
    node_names: Sequence[str]
    digest: DigestTable
    redis_control: Callable[[FollowWrites], object]  # raises an error if Redis control fails
    express: ExpressCopies | None  # None if the stack makes no copies in S3 Express
    clock: Clock

    def apply_writes(self, keys: Iterable[str], *, batch: Batch | None = None) -> dict[str, Refreshed]:
        """Invalidate the copies of written or deleted objects, then announce the changes to readers.

        Invalidate the tiers from the lowest up. A reader that fills a tier from the tier below gets the new object, or
        its fill comes too late and is rejected. A reader that has seen the announcement finds no old copy in any tier.
        The contents of readers' memories are unknown, so announce every change, even a redelivered change.

        Args:
            keys: The objects' keys.
            batch: The batch of S3's events that names the keys. Readers learn how long other events wait, and early if
                a part does not answer, since events then wait behind the batch for seconds. None: there is no batch.

        Returns:
            The results by key.

        Raises:
            FunctionFailedError: Redis control has failed. An old copy may still be read, so call this method again.
            ServiceError: The invalidation or the announcement has failed. Call this method again.
        """
        by_hash = {key_hash(key): key for key in keys}
        invalidate, tell_early = partial(self._invalidate, by_hash), partial(self._announce, (), batch)
        is_followed = False
        try:
            done: list[dict[str, Refreshed]] = run_concurrently(
                self.clock, invalidate, late_s=LATE_S, if_late=tell_early if batch else None
            )
            is_followed = True
        finally:
            self._announce(by_hash, batch if is_followed else None)  # a batch that fails waits on: it ends no backlog
        return done[0]

    def _announce(self, hashes: Iterable[str], batch: Batch | None) -> None:
        now_us = self.clock.now_us()
        self.digest.announce(list(hashes), now_us=now_us, backlog=batch.backlog(now_us) if batch else None)

    def _invalidate(self, by_hash: Mapping[str, str]) -> dict[str, Refreshed]:
        """Invalidate the copies in every tier, even if one of them fails."""
        try:
            if self.express is not None:
                run_concurrently(self.clock, *(partial(self.express.put_tombstone, hash_) for hash_ in by_hash))
        finally:
            refreshed = self._invalidate_in_network(by_hash)
        return refreshed

    def _invalidate_in_network(self, by_hash: Mapping[str, str]) -> dict[str, Refreshed]:
        """Invoke Redis control if a tier that only Redis control can reach may have a copy.

        Lives and nodes that start after this check load the new objects.
        """
        rows = self.keys.read_many(by_hash)
        misleading, since_s = [row.hash for row in rows.values() if self._correct_digest(row)], self.clock.monotonic_s()
        now_us, nodes = self.clock.now_us(), self.nodes.read_many(self.node_names)
        held = [
            key
            for hash_, key in by_hash.items()
            if (hash_ in rows and rows[hash_].may_be_held(now_us)) or any(node.is_home_of(hash_) for node in nodes)
        ]
        refreshed = {key: Refreshed(refreshed="", copies=0) for key in by_hash.values()}
        if held:
            followed = cast(Followed, self.redis_control(FollowWrites(op="follow_writes", keys=held)))
            refreshed |= zip(held, followed["writes"], strict=True)
        if misleading:
            wait_for_readers(self.digest, misleading, self.clock, since_s=since_s)
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
