"""Copies in the tiers of cache functions and nodes. A write invalidates all copies, and reloads a life's copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.concurrency import run_concurrently
from burstcache.control.grace_period import wait_for_readers
from burstcache.control.key_on_node import load
from burstcache.control.node_copies import Dropped, NodeCopies
from burstcache.control.retry import retry_until_answered
from burstcache.core.errors import (
    BurstcacheError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    RelayDownError,
    ServiceError,
)
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Refreshed
from burstcache.core.messages.relay import Order, Refresh
from burstcache.core.rows import KeyRow
from burstcache.logs import logger

_LATE_S = 0.25  # healthy parts take a few milliseconds


@dataclass(frozen=True, slots=True)
class TierCopies:
    """The copies that can be reached only from inside the network."""

    on_nodes: NodeCopies
    keys: KeyTable
    digest: DigestTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # takes a node's name
    send_cache_order: Callable[[str, Order], None]  # takes a key's hash; sends to all its cache functions
    max_object_bytes: int
    clock: Clock

    def apply_writes(self, keys: Sequence[str]) -> list[Refreshed]:
        """Invalidate all copies of written objects. Afterwards no reader gets an older version, even if a tier fails.

        A cache function reloads an object itself. This method reloads the objects into Redis whose keys have lives
        there. If a part does not answer, readers are prevented from using its copies, and the method waits for the
        grace period. After direct writes to the bucket, no caller waits. If tiers are slow, readers are therefore sent
        to S3, and the writes are announced to readers' memories before the tiers are invalidated. If that fails, the
        writes do not: readers of slow tiers may see old versions until the tiers are invalidated, as in the first
        0.25 s.

        Args:
            keys: The objects' keys, each once.

        Raises:
            ServiceError: DynamoDB fails during the invalidation. An old copy may still be read.
        """
        hashes, marks = [key_hash(key) for key in keys], set[str]()

        def bypass_tiers() -> None:
            marks.update(self.digest.mark_late(hashes, now_us=self.clock.now_us()))
            self.digest.announce(hashes, now_us=self.clock.now_us())  # after the marks, so later reads are up to date

        invalidate = partial(self._invalidate, hashes)
        done: list[list[Refreshed]] = run_concurrently(self.clock, invalidate, late_s=_LATE_S, if_late=bypass_tiers)
        if marks:
            with suppress(ServiceError):  # marks expire by themselves
                self.digest.remove_marks(marks)
        return done[0]

    def _invalidate(self, hashes: Sequence[str]) -> list[Refreshed]:
        rows = self.keys.read_many(hashes)
        dropped, is_ordered = self._drop(hashes, rows)
        since_s = self.clock.monotonic_s()
        self._reload([row for row in rows.values() if row.node in dropped.of_life.get(row.hash, ())])
        if dropped.lost or not is_ordered:
            wait_for_readers(self.digest, hashes, self.clock, since_s=since_s)
            self.on_nodes.note_unasked(dropped.lost)
        return [self._refreshed(dropped.copies.get(hash_, 0), rows.get(hash_)) for hash_ in hashes]

    def _refreshed(self, copies: int, row: KeyRow | None) -> Refreshed:
        if row is None or not row.is_live(self.clock.now_us()):
            return Refreshed(refreshed="", copies=copies)
        return Refreshed(refreshed=row.tier, copies=copies + (row.tier == "lambda"))

    def _drop(self, hashes: Sequence[str], rows: Mapping[str, KeyRow]) -> tuple[Dropped, bool]:
        """Drop the copies on nodes and in cache functions concurrently, so a write waits only for the slowest part.

        Returns:
            The result on nodes, and whether the cache functions have received the orders or need none.
        """
        now_us = self.clock.now_us()
        held = [hash_ for hash_, row in rows.items() if row.may_be_held(now_us)]
        drop_on_nodes, order_caches = partial(self.on_nodes.drop, hashes, rows), partial(self._order_caches, held)
        if not held:
            return drop_on_nodes(), True
        dropped, is_ordered = run_concurrently(self.clock, drop_on_nodes, order_caches)
        return dropped, is_ordered

    def _order_caches(self, hashes: Sequence[str]) -> bool:
        """Order keys' cache functions to drop their copies. If that fails, raise the fence of all and return False."""
        for hash_ in hashes:
            send = partial(self.send_cache_order, hash_, Refresh(op="refresh"))
            if not retry_until_answered(send, RelayDownError, self.clock):
                logger().warning("the relay does not answer, the fence is raised", key_hash=hash_)
                self.digest.raise_fence(now_us=self.clock.now_us())
                return False
        return True

    def _reload(self, rows: Sequence[KeyRow]) -> None:
        """Reload the objects whose keys have lives in Redis."""
        now_us = self.clock.now_us()
        loads = [
            partial(self._load, row)
            for row in rows
            if row.is_live(now_us) and row.phase in ("redis_bootup", "redis_running")
        ]
        run_concurrently(self.clock, *loads)

    def _load(self, row: KeyRow) -> None:
        """Reload a key's object into Redis. A failure does not fail the write, since S3 serves the object.

        Do not retry a revoked load. The caller that revoked it (another write, or the key's own seed) loads the object.
        """
        try:
            load(self.objects, self.store(row.node), row.hash, row.key, max_bytes=self.max_object_bytes)
        except (ObjectNotFoundError, ObjectTooLargeError):
            pass  # readers get the corresponding error from S3
        except BurstcacheError as error:
            logger().warning("a written object is not in Redis again", reason=str(error), key_hash=row.hash)
