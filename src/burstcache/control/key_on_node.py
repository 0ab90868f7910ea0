"""A key's way through Redis: it joins the node, is seeded, follows writes to its object, and leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.node_life import NodeLife
from burstcache.core.errors import (
    ContendedRowTransientError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    RedisDownError,
    RelayDownError,
    SupersededError,
)
from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import Request
from burstcache.core.table import KeyRow, Lease, NodeRow

_BOOTUP_DEADLINE_S = 540  # RedisBootup, SeedRedis with retries
_RUNNING_DEADLINE_S = 30 * 24 * 3600 + 600  # RedisRunning's time-out
_COOL_DOWN_S = 60
_MAX_COOL_DOWN_S = 3600
_JOIN_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Life:
    """Which life of which key a step belongs to."""

    key: str
    hash: str
    epoch: int


@dataclass(frozen=True, slots=True)
class KeyOnNode:
    """What Redis control does for one key on its node."""

    node: str
    node_life: NodeLife
    nodes: NodeTable
    keys: KeyTable
    executions: Executions
    objects: ObjectStore
    store: Callable[[], RedisObjects]
    ask_cache: Callable[[str, dict[str, Any]], dict[str, Any]]
    max_object_bytes: int
    clock: Clock

    def join(self, life: Life, token: str) -> dict[str, Any]:
        """RedisBootup: take a lease on the node and see that it boots; the token is completed when it is ready."""
        self._change(
            life, set_={"phase": "redis_bootup", "node": self.node, "deadline_at_us": self._in_s(_BOOTUP_DEADLINE_S)}
        )
        row = self.nodes.join(Lease(self.node, life.hash, life.key, life.epoch, waiter=token))
        running = self.see_that_it_boots(row)
        if running:
            self.executions.succeed(token, {"generation": running.generation})
        return {}

    def hold(self, for_s: int) -> dict[str, Any]:
        """Keep the node running for a while without a key (development API)."""
        held_until_us = self._in_s(for_s)
        row = self.nodes.join(Lease(self.node, "by-hand", held_until_us=held_until_us))
        running = self.see_that_it_boots(row)
        return {"phase": running.phase if running else self.nodes.read(self.node).phase, "held_until_us": held_until_us}

    def see_that_it_boots(self, row: NodeRow) -> NodeRow | None:
        """Bring the node of a lease just put towards running; return its row if it runs already.

        While it is stopping nothing is to be done: StopNode sees the lease and boots it again.
        """
        for _ in range(_JOIN_ATTEMPTS):
            phase = row.phase_at(self.clock.now_us())
            if phase == "running":
                return row
            if phase == "stopping":
                return None
            if phase == "stopped":
                if self.node_life.boot(row) is not None:
                    return None
            else:
                self.node_life.run(row)  # the first joiner may have died before it did this
                return None
            row = self.nodes.read(self.node)
        raise ContendedRowTransientError(f"node {self.node} changed under {_JOIN_ATTEMPTS} attempts to boot it")

    def seed(self, life: Life, generation: int) -> dict[str, Any]:
        """SeedRedis: put the object into Redis, then route to it, then stop the cache function.

        Raises:
            ObjectNotFoundError, ObjectTooLargeError, OriginError: The object cannot be had.
            RedisDownError: The node does not take it.
            SupersededError: The key belongs to a newer life.
        """
        self._load(life.hash, life.key)
        row = self._change(
            life,
            set_={
                "phase": "redis_running",
                "tier": "redis",
                "node": self.node,
                "generation": generation,
                "deadline_at_us": self._in_s(_RUNNING_DEADLINE_S),
            },
        )
        self.store().add_older_times(life.hash, [request.at_us for request in (*row.window, *self._stop_cache(life))])
        return {"node": self.node, "generation": generation}

    def leave(self, life: Life, *, queue_us: Sequence[int], is_failed: bool, failures: int) -> dict[str, Any]:
        """RedisShutdown: take the route off, forget the entry, drop the lease; S3 serves the key again.

        A life that is over already has nothing left to do, so a repeat is harmless.
        """
        row = self.keys.update(life.hash, epoch=life.epoch, set_={"phase": "redis_shutdown"}, remove=["tier"])
        if row is not None:
            self._forget(life.hash)
        self.nodes.drop(Lease(self.node, life.hash, epoch=life.epoch))
        self._stop_cache(life)
        if row is not None:
            self._return_to_s3(life, queue_us, failures=failures if is_failed else None)
        return {}

    def origin_changed(self, key: str) -> dict[str, Any]:
        """Follow a write to the object: whoever holds a copy of it asks S3 for the new one.

        Raises:
            RelayDownError, RedisDownError, OriginError: An old copy may still be read; the event has to come again.
        """
        row = self.keys.read(key_hash(key))
        if row is None or not row.is_live(self.clock.now_us()):
            return {"refreshed": ""}
        if row.phase in ("lambda", "restricted_lambda") and not row.tier:
            # It may have loaded the old object and not announced itself: nobody hears us yet, but it will read the row.
            row = self.keys.update(row.hash, epoch=row.epoch, set_={"written_in": row.epoch}) or row
        try:
            if row.tier == "lambda":
                self.ask_cache(row.hash, {"op": "refresh", "epoch": row.epoch})
        finally:
            if row.phase in ("redis_bootup", "redis_running"):
                self._reload(row)
        return {"refreshed": row.tier}

    def _load(self, hash_: str, key: str) -> None:
        """Copy the object from S3, again if it was written meanwhile: so the last one of several loads is right."""
        while True:
            entry = self.objects.fetch(key, max_bytes=self.max_object_bytes)
            self.store().put(hash_, entry)
            if self.objects.head(key).headers.get("etag") == entry.etag:
                return

    def _reload(self, row: KeyRow) -> None:
        try:
            self._load_or_remove(row)
        except RedisDownError:
            if row.phase == "redis_running":  # while the node boots, nobody reads there
                raise

    def _load_or_remove(self, row: KeyRow) -> None:
        try:
            self._load(row.hash, row.key)
        except RedisDownError:
            raise
        except (ObjectNotFoundError, ObjectTooLargeError):
            self.store().remove_entry(row.hash)  # S3 says so itself, and nothing has failed
        except Exception:
            self.store().remove_entry(row.hash)  # unreadable now
            raise

    def _forget(self, hash_: str) -> None:
        with suppress(RedisDownError):  # then the entry went with the node
            self.store().remove(hash_)

    def _stop_cache(self, life: Life) -> list[Request]:
        try:
            answer = self.ask_cache(life.hash, {"op": "stop", "epoch": life.epoch})
        except RelayDownError:
            return []  # without the relay nobody reaches the cache function either; it ends by itself
        return [Request.parse(text) for text in answer.get("window", ())]

    def _return_to_s3(self, life: Life, queue_us: Sequence[int], *, failures: int | None) -> None:
        now = self.clock.now_us()
        set_: dict[str, Any] = {"phase": "s3", "changed_at_us": now}
        remove = ["holder", "node", "generation", "deadline_at_us"]
        if failures is None:
            remove += ["failures", "not_before_us"]
        else:
            set_["failures"] = failures + 1
            set_["not_before_us"] = now + min(_COOL_DOWN_S * 2**failures, _MAX_COOL_DOWN_S) * US_PER_S
        served = [Request(at_us, f"redis-{at_us}") for at_us in queue_us]
        self.keys.update(life.hash, epoch=life.epoch, set_=set_, remove=remove, append_window=served)

    def _change(self, life: Life, *, set_: dict[str, Any]) -> KeyRow:
        row = self.keys.update(life.hash, epoch=life.epoch, set_=set_)
        if row is None:
            raise SupersededError(f"{life.key!r}: epoch {life.epoch} is over")
        return row

    def _in_s(self, seconds: int) -> int:
        return self.clock.now_us() + seconds * US_PER_S
