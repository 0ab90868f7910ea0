"""A key's way through Redis: it joins its node, is seeded, and leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.control.meter import Meter
from burstcache.control.node_runs import NodeRuns
from burstcache.core.deadlines import BOOTUP_S, RUNNING_S
from burstcache.core.errors import (
    ContendedRowTransientError,
    NodeAbsentError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    RedisDownError,
    RelayDownError,
    SupersededError,
)
from burstcache.core.messages.answers import Done, Held, Left, NodeReady, Seeded
from burstcache.core.messages.encoding import iso
from burstcache.core.messages.relay import Order, Stop, window_of
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import Request, cool_down_us
from burstcache.core.rows import BY_HAND, KeyRow, Lease
from burstcache.core.table import KeyColumn, KeyColumns

AskCache = Callable[[str, Order], bytes | None]  # the key's hash, an order: the answer, None if none holds the key


_MOST_LOADS = 20


@dataclass(frozen=True, slots=True)
class Life:
    """Which life of which key a step belongs to."""

    key: str
    hash: str
    epoch: int


def load(objects: ObjectStore, store: RedisObjects, hash_: str, key: str, *, max_bytes: int) -> bool:
    """Copy an object from S3 into Redis; False if a write, or another load, has come meanwhile.

    Raises:
        ObjectNotFoundError, ObjectTooLargeError, OriginError: S3 does not give the object.
        RedisDownError: The node does not take it.
    """
    token = store.take_lease(hash_)  # before S3 is asked: a write takes it away
    return store.put(hash_, objects.fetch(key, max_bytes=max_bytes), token)


@dataclass(frozen=True, slots=True)
class KeyOnNode:
    """What Redis control does for the keys of one node. Every step may run twice."""

    node: str
    runs: NodeRuns
    nodes: NodeTable
    keys: KeyTable
    executions: Executions
    objects: ObjectStore
    store: Callable[[], RedisObjects]
    ask_cache: AskCache
    max_object_bytes: int
    clock: Clock
    meter: Meter

    def join(self, life: Life, token: str) -> Done:
        """RedisBootup: take a lease on the node and make sure that it boots; its readiness completes the token."""
        deadline_us = self._in_s(BOOTUP_S)
        joined = KeyColumns(phase="redis_bootup", deadline_at_us=deadline_us, joined_at_us=self.clock.now_us())
        self._change(life, joined)
        row = self.nodes.join(Lease(self.node, life.hash, life.key, life.epoch, waiter=token))
        running = self.runs.see_that_it_boots(row)
        if running:
            self.executions.succeed(token, NodeReady(generation=running.generation))
        return Done()

    def hold(self, for_s: int) -> Held:
        """Keep the node running for a while without a key (development API)."""
        self.store()  # raises NodeAbsentError: a lease on a node that does not exist would stay for ever
        held_until_us = self._in_s(for_s)
        row = self.nodes.join(Lease(self.node, BY_HAND, held_until_us=held_until_us))
        row = self.runs.see_that_it_boots(row, by_hand=True) or self.nodes.read(self.node)
        return Held(phase=row.phase, held_until_us=held_until_us)

    def seed(self, life: Life, generation: int) -> Seeded:
        """SeedRedis: put the object into Redis, then route to it, then stop the cache function.

        Without an object that fits, the lease is given back, which RedisRunning finds: the life ends there, and no
        branch costs every life a transition.

        Raises:
            OriginError: S3 does not give the object.
            RedisDownError: The node does not take it.
            SupersededError: The key belongs to a newer life.
            ContendedRowTransientError: Each copy came too late.
        """
        try:
            self._load(life)
        except (ObjectNotFoundError, ObjectTooLargeError):
            self.nodes.drop(Lease(self.node, life.hash, epoch=life.epoch))
            return Seeded(node=self.node, generation=generation, outcome="gone")
        deadline_us = self._in_s(RUNNING_S)
        row = self._change(
            life,
            KeyColumns(phase="redis_running", tier="redis", generation=generation, deadline_at_us=deadline_us),
        )
        self.store().add_older_times(life.hash, [request.at_us for request in (*row.window, *self._stop_cache(life))])
        self.meter.promoted()
        return Seeded(node=self.node, generation=generation)

    def leave(self, life: Life, *, queue_us: Sequence[int], is_failed: bool, failures: int) -> Left:
        """RedisShutdown: take the route off, forget the entry, drop the lease; S3 serves the key again.

        A life that has ended has nothing left to do, so a repeat is harmless.
        """
        leaving = KeyColumns(phase="redis_shutdown")
        row = self.keys.update(life.hash, epoch=life.epoch, set_=leaving, remove=["tier"])
        if row is not None:
            with suppress(RedisDownError, NodeAbsentError):  # then the entry went with the node
                self.store().remove(life.hash)
        self.nodes.drop(Lease(self.node, life.hash, epoch=life.epoch))
        self._stop_cache(life)
        if row is not None:
            self._return_to_s3(life, queue_us, failures=failures if is_failed else None)
            self.meter.left_redis(is_failed=is_failed)
        return _left(row, queue_us)

    def _load(self, life: Life) -> None:
        for _ in range(_MOST_LOADS):
            if load(self.objects, self.store(), life.hash, life.key, max_bytes=self.max_object_bytes):
                return
        raise ContendedRowTransientError(f"{life.key!r} was written during each of {_MOST_LOADS} loads")

    def _stop_cache(self, life: Life) -> list[Request]:
        try:
            return window_of(self.ask_cache(life.hash, Stop(op="stop", epoch=life.epoch)))
        except RelayDownError:
            return []  # without the relay no proxy reaches the cache function either; it ends by itself

    def _return_to_s3(self, life: Life, queue_us: Sequence[int], *, failures: int | None) -> None:
        now_us = self.clock.now_us()
        returned = KeyColumns(phase="s3", changed_at_us=now_us)
        remove: list[KeyColumn] = ["holder", "node", "generation", "deadline_at_us"]
        if failures is None:
            remove += ["failures", "not_before_us"]
        else:
            returned["failures"] = failures + 1
            returned["not_before_us"] = now_us + cool_down_us(failures)
        served = [Request(at_us, f"redis-{at_us}") for at_us in queue_us]
        self.keys.update(life.hash, epoch=life.epoch, set_=returned, remove=remove, append_window=served)

    def _change(self, life: Life, columns: KeyColumns) -> KeyRow:
        row = self.keys.update(life.hash, epoch=life.epoch, set_=columns)
        if row is None:
            raise SupersededError(f"{life.key!r}: epoch {life.epoch} is over")
        return row

    def _in_s(self, seconds: int) -> int:
        return self.clock.now_us() + seconds * US_PER_S


def _left(row: KeyRow | None, queue_us: Sequence[int]) -> Left:
    left = Left()
    if row is not None and row.trigger is not None:
        left["first_request"] = iso(row.trigger.at_us)
    if queue_us:
        left["last_request"] = iso(max(queue_us))
    return left
