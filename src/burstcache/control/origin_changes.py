"""Writes to the origin that S3 reports: every tier that holds a copy lets it go or asks for the new object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.guests import Guests
from burstcache.control.key_on_node import AskCache, load
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError, RedisDownError
from burstcache.core.keys import key_hash
from burstcache.core.messages import Refresh, Refreshed
from burstcache.core.phases import Tier
from burstcache.core.table import KeyColumns, KeyRow


@dataclass(frozen=True, slots=True)
class OriginChanges:
    """Follows writes to objects of the bucket."""

    guests: Guests
    keys: KeyTable
    digest: DigestTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # by the node's name
    ask_cache: AskCache
    max_object_bytes: int
    clock: Clock
    express: ExpressCopies | None = None  # None: there are no copies

    def follow(self, key: str) -> Refreshed:
        """Refresh the copies of an object that was written or deleted, then tell readers of the change.

        In this order, from the lowest tier up: a reader that fills a tier from one below finds the new object there or
        comes too late, and a reader that knows of the change finds no old copy in a tier any more. What readers keep in
        their memories nobody knows, so each change is announced, and a failed event once more when it comes again.

        Raises:
            RelayDownError, RedisDownError, OriginError: An old copy may still be read, so the event must be retried.
            ServiceError: The same, or readers have not been told.
        """
        hash_ = key_hash(key)
        try:
            return self._follow_in_tiers(hash_, key)
        finally:
            self.digest.announce(hash_, now_us=self.clock.now_us())

    def _follow_in_tiers(self, hash_: str, key: str) -> Refreshed:
        """Take every step, whether or not those before it failed."""
        try:
            if self.express is not None:
                self.express.bury(hash_)
        finally:
            try:
                self.guests.remove([hash_])
            finally:
                refreshed = self._refresh_tiers(key)
        return refreshed

    def _refresh_tiers(self, key: str) -> Refreshed:
        row = self.keys.read(key_hash(key))
        if row is None:
            return Refreshed(refreshed="")
        self._correct_digest(row)
        if not row.is_live(self.clock.now_us()):
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

    def _correct_digest(self, row: KeyRow) -> None:
        """Take from the digest a route that the row does not have, or no longer: that tier hears of no write.

        Step Functions ends lives in rows only, and a write of the digest may have failed. The cache function or the
        node of a former life may still answer, so no reader that knows of this write may ask it.
        """
        shown = self.digest.read_key(row.hash)
        if shown is None or not shown.tier or (shown.epoch, shown.tier) == (row.epoch, _tier_now(row, self.clock)):
            return
        row = self.keys.read(row.hash) or row  # now it is not older than what is shown
        if shown.epoch < row.epoch:
            self.digest.remove_key(row.hash, shown)
        else:
            self.digest.show_key(replace(row, tier=_tier_now(row, self.clock)))

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


def _tier_now(row: KeyRow, clock: Clock) -> Tier:
    return row.tier if row.is_live(clock.now_us()) else ""
