"""Copies in cache functions and nodes: after a write to its object each is let go, and loaded anew for a life."""

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
from burstcache.control.insisting import insist
from burstcache.control.key_on_node import load
from burstcache.control.node_copies import Dropped, NodeCopies
from burstcache.control.outlasting import outlast_readers
from burstcache.control.together import do_together
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

_LATE_S = 0.25  # parts that are well take a few milliseconds


@dataclass(frozen=True, slots=True)
class TierCopies:
    """The copies that only a function in the network reaches."""

    on_nodes: NodeCopies
    keys: KeyTable
    digest: DigestTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # by the node's name
    tell_cache: Callable[[str, Order], None]  # the key's hash, an order: returns when all that listen get it next
    max_object_bytes: int
    clock: Clock

    def follow_write(self, key: str) -> Refreshed:
        """Have no reader get an older copy of an object once this returns, whatever a tier does.

        A cache function loads the object anew by itself; where Redis has a life of the key, this does. Of a part that
        does not answer, this has readers ask for no copy any more, and waits until none goes by what it knew before.
        After a write straight to the bucket nobody waits: where tiers take long, readers ask S3 in their place, and
        memories hear of the write before the tiers have followed, too.

        Raises:
            ServiceError: DynamoDB fails: an old copy may still be read.
        """
        hash_, marks = key_hash(key), list[str]()

        def have_s3_asked() -> None:
            marks.append(self.digest.mark_late(hash_, now_us=self.clock.now_us()))
            self.digest.announce(hash_, now_us=self.clock.now_us())  # after the mark: what is read from now on is new

        follow = partial(self._follow, hash_)
        done: list[Refreshed] = do_together(self.clock, follow, late_s=_LATE_S, if_late=have_s3_asked)
        with suppress(ServiceError):  # a mark ends by itself
            for mark in marks:
                self.digest.remove_mark(mark)
        return done[0]

    def _follow(self, hash_: str) -> Refreshed:
        row = self.keys.read(hash_)
        dropped, is_ordered = self._let_go(hash_, row)
        since_s = self.clock.monotonic_s()
        tier = self._load_again(row, dropped.of_life)
        if dropped.lost or not is_ordered:
            outlast_readers(self.digest, hash_, self.clock, since_s=since_s)
            self.on_nodes.note_unasked(dropped.lost)
        in_function = row is not None and row.tier == "lambda" and row.is_live(self.clock.now_us())
        return Refreshed(refreshed=tier, copies=dropped.copies + in_function)

    def _let_go(self, hash_: str, row: KeyRow | None) -> tuple[Dropped, bool]:
        """Have nodes and cache functions let their copies go, at the same time: a write waits for the slowest of them.

        Returns:
            What became of those on nodes, and whether the cache functions have their order, or need none.
        """
        drop, tell = partial(self.on_nodes.drop, hash_, row), partial(self._tell, hash_)
        if row is None or not row.may_be_held(self.clock.now_us()):
            return drop(), True
        dropped, is_ordered = do_together(self.clock, drop, tell)
        return dropped, is_ordered

    def _tell(self, hash_: str) -> bool:
        """Order the cache functions of a key to let their copies go, or raise the fence; return which."""
        is_ordered = insist(lambda: self.tell_cache(hash_, Refresh(op="refresh")), RelayDownError, self.clock)
        if not is_ordered:
            logger().warning("the relay does not answer, the fence is raised", key_hash=hash_)
            self.digest.raise_fence(now_us=self.clock.now_us())
        return is_ordered

    def _load_again(self, row: KeyRow | None, of_life: set[str]) -> Tier:
        if row is None or not row.is_live(self.clock.now_us()):
            return ""
        if row.phase in ("redis_bootup", "redis_running") and row.node in of_life:
            self._load(row)
        return row.tier

    def _load(self, row: KeyRow) -> None:
        """Load the object of a key into Redis again. Without it S3 serves, so a failure is none of the write.

        A copy that comes too late is left to what has come between: another write, or the key's own way to Redis.
        """
        try:
            load(self.objects, self.store(row.node), row.hash, row.key, max_bytes=self.max_object_bytes)
        except (ObjectNotFoundError, ObjectTooLargeError):
            pass  # S3 itself says so from here on
        except BurstcacheError as error:
            logger().warning("a written object is not in Redis again", reason=str(error), key_hash=row.hash)
