"""Copies in cache functions and nodes: after a write to its object each is let go, and loaded anew for a life."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.key_on_node import load
from burstcache.control.node_copies import NodeCopies
from burstcache.core.errors import BurstcacheError, ObjectNotFoundError, ObjectTooLargeError, RelayDownError
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Refreshed
from burstcache.core.messages.relay import Order, Refresh
from burstcache.core.rows import KeyRow
from burstcache.logs import logger

_TRIES = 4  # of the relay, which may be starting again: it takes a second or two
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class TierCopies:
    """The copies that only a function in the network reaches."""

    on_nodes: NodeCopies
    keys: KeyTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # by the node's name
    tell_cache: Callable[[str, Order], None]  # the key's hash, an order: returns when all that listen get it next
    max_object_bytes: int
    clock: Clock

    def follow_write(self, key: str) -> Refreshed:
        """Let every copy of an object go after a write to it, whether or not that fails for another one.

        A cache function loads the object anew by itself; where Redis has a life of the key, this does.

        Raises:
            RelayDownError, RedisDownError: An old copy may still be read.
            ServiceError: DynamoDB fails, likewise.
        """
        hash_, of_life = key_hash(key), set[str]()
        row = self.keys.read(hash_)
        try:
            of_life = self.on_nodes.drop(hash_, row)
        finally:
            if row is not None and row.may_be_held(self.clock.now_us()):
                self._tell(hash_)
        if row is None or not row.is_live(self.clock.now_us()):
            return Refreshed(refreshed="")
        if row.phase in ("redis_bootup", "redis_running") and row.node in of_life:
            self._load(row)
        return Refreshed(refreshed=row.tier)

    def _tell(self, hash_: str) -> None:
        for tried in range(1, _TRIES + 1):
            try:
                return self.tell_cache(hash_, Refresh(op="refresh"))
            except RelayDownError:
                if tried == _TRIES:
                    raise
                self.clock.sleep(_PAUSE_S)

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
