"""Copies in cache functions and nodes: after a write to its object, each is let go or asks for the new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.guests import Guests
from burstcache.control.key_on_node import AskCache, load
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError, RedisDownError
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Refreshed
from burstcache.core.messages.relay import Refresh
from burstcache.core.table import KeyColumns, KeyRow


@dataclass(frozen=True, slots=True)
class TierCopies:
    """The copies that only a function in the network reaches."""

    guests: Guests
    keys: KeyTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # by the node's name
    ask_cache: AskCache
    max_object_bytes: int
    clock: Clock

    def follow_write(self, key: str) -> Refreshed:
        """Have every copy of an object follow a write to it, whether or not another one fails to.

        Raises:
            RelayDownError, RedisDownError, OriginError: An old copy may still be read.
            ServiceError: DynamoDB fails, likewise.
        """
        try:
            self.guests.remove([key_hash(key)])
        finally:
            refreshed = self._refresh_tiers(key)
        return refreshed

    def _refresh_tiers(self, key: str) -> Refreshed:
        row = self.keys.read(key_hash(key))
        if row is None or not row.is_live(self.clock.now_us()):
            return Refreshed(refreshed="")
        if row.phase in ("lambda", "restricted_lambda") and not row.tier:
            # It may have loaded the old object and not announced itself: it hears no order yet, but will read the row.
            written = KeyColumns(written_in=row.epoch)
            row = self.keys.update(row.hash, epoch=row.epoch, set_=written) or row
        try:
            if row.tier == "lambda":
                self.ask_cache(row.hash, Refresh(op="refresh", epoch=row.epoch))
        finally:
            if row.phase in ("redis_bootup", "redis_running"):
                self._reload(row)
        return Refreshed(refreshed=row.tier)

    def _reload(self, row: KeyRow) -> None:
        store = self.store(row.node)
        try:
            self._load_or_remove(store, row)
        except RedisDownError:
            if row.phase == "redis_running":  # while the node boots, no proxy reads there
                raise

    def _load_or_remove(self, store: RedisObjects, row: KeyRow) -> None:
        try:
            load(self.objects, store, row.hash, row.key, max_bytes=self.max_object_bytes)
        except RedisDownError:
            raise
        except (ObjectNotFoundError, ObjectTooLargeError):
            store.remove_entry(row.hash)  # S3 itself says so from here on, and nothing has failed
        except Exception:
            store.remove_entry(row.hash)  # unreadable now
            raise
