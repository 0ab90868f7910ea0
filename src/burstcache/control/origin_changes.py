"""Writes to the origin that S3 reports: every tier that holds a copy asks for the new object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.key_on_node import AskCache, load
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError, RedisDownError
from burstcache.core.keys import key_hash
from burstcache.core.messages import Refresh, Refreshed
from burstcache.core.table import KeyColumns, KeyRow


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """Follows writes to objects of the bucket."""

    keys: KeyTable
    digest: DigestTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # by the node's name
    ask_cache: AskCache
    max_object_bytes: int
    clock: Clock

    def follow(self, key: str) -> Refreshed:
        """Refresh the copies of an object that was written or deleted, then tell readers of the change.

        In this order: a reader that knows of the change finds no old copy in a tier any more. What readers keep in
        their memories nobody knows, so each change is announced, and a failed event once more when it comes again.

        Raises:
            RelayDownError, RedisDownError, OriginError: An old copy may still be read, so the event must be retried.
            ServiceError: Readers have not been told, so likewise.
        """
        try:
            return self._refresh_tiers(key)
        finally:
            self.digest.announce(key_hash(key))

    def _refresh_tiers(self, key: str) -> Refreshed:
        row = self.keys.read(key_hash(key))
        if row is None:
            return Refreshed(refreshed="")
        if not row.is_live(self.clock.now_us()):
            self._hide(row)
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

    def _hide(self, row: KeyRow) -> None:
        """Take a key off the digest whose life has ended without it: Step Functions writes rows and no digest.

        A cache function that has outlived its state hears of no write, so no reader may ask it after this one.
        """
        shown = self.digest.read().routes.get(row.hash)
        if shown is not None and shown.tier:
            self.digest.show_key(replace(row, tier=""))

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
