"""Copies in the tiers of cache functions and nodes. A write invalidates all copies, and reloads a life's copies."""

from __future__ import annotations

from collections.abc import Callable
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
from burstcache.core.phases import Tier
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

    def apply_write(self, key: str) -> Refreshed:
        """Invalidate all copies of a written object. Afterwards no reader gets an older version, even if a tier fails.

        A cache function reloads the object itself. This method reloads it into Redis if the key has a life there. If a
        part does not answer, readers are prevented from using its copies, and the method waits for the grace period.
        After a direct write to the bucket, no caller waits. If tiers are slow, readers are therefore sent to S3, and
        the write is announced to readers' memories before the tiers are invalidated. If that fails, the write does not:
        readers of slow tiers may see the old version until the tiers are invalidated, as in the first 0.25 s.

        Raises:
            ServiceError: DynamoDB fails during the invalidation. An old copy may still be read.
        """
        hash_, marks = key_hash(key), list[str]()

        def bypass_tiers() -> None:
            marks.append(self.digest.mark_late(hash_, now_us=self.clock.now_us()))
            self.digest.announce(hash_, now_us=self.clock.now_us())  # after the mark, so later reads are up to date

        invalidate = partial(self._invalidate, hash_)
        done: list[Refreshed] = run_concurrently(self.clock, invalidate, late_s=_LATE_S, if_late=bypass_tiers)
        with suppress(ServiceError):  # a mark expires by itself
            for mark in marks:
                self.digest.remove_mark(mark)
        return done[0]

    def _invalidate(self, hash_: str) -> Refreshed:
        row = self.keys.read(hash_)
        dropped, is_ordered = self._drop(hash_, row)
        since_s = self.clock.monotonic_s()
        tier = self._reload(row, dropped.of_life)
        if dropped.lost or not is_ordered:
            wait_for_readers(self.digest, hash_, self.clock, since_s=since_s)
            self.on_nodes.note_unasked(dropped.lost)
        in_function = row is not None and row.tier == "lambda" and row.is_live(self.clock.now_us())
        return Refreshed(refreshed=tier, copies=dropped.copies + in_function)

    def _drop(self, hash_: str, row: KeyRow | None) -> tuple[Dropped, bool]:
        """Drop the copies on nodes and in cache functions concurrently, so a write waits only for the slowest part.

        Returns:
            The result on nodes, and whether the cache functions have received the order or need none.
        """
        drop_on_nodes, order_caches = partial(self.on_nodes.drop, hash_, row), partial(self._order_caches, hash_)
        if row is None or not row.may_be_held(self.clock.now_us()):
            return drop_on_nodes(), True
        dropped, is_ordered = run_concurrently(self.clock, drop_on_nodes, order_caches)
        return dropped, is_ordered

    def _order_caches(self, hash_: str) -> bool:
        """Order a key's cache functions to drop their copies. If that fails, raise the fence and return False."""
        is_ordered = retry_until_answered(
            lambda: self.send_cache_order(hash_, Refresh(op="refresh")), RelayDownError, self.clock
        )
        if not is_ordered:
            logger().warning("the relay does not answer, the fence is raised", key_hash=hash_)
            self.digest.raise_fence(now_us=self.clock.now_us())
        return is_ordered

    def _reload(self, row: KeyRow | None, of_life: set[str]) -> Tier:
        if row is None or not row.is_live(self.clock.now_us()):
            return ""
        if row.phase in ("redis_bootup", "redis_running") and row.node in of_life:
            self._load(row)
        return row.tier

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
