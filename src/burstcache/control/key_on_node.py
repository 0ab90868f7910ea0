"""The steps of a key on its Redis node: join, seed and leave."""

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
from burstcache.core.policy import RecordedRequest, cool_down_us
from burstcache.core.rows import KeyRow, Lease
from burstcache.core.table import KeyColumn, KeyColumns

# Takes a key's hash and an order. Returns the answer, or None if no cache function holds the key.
RequestFromCache = Callable[[str, Order], bytes | None]

_MOST_LOADS = 20


@dataclass(frozen=True, slots=True)
class LifeOnNode:
    """The key's life to which a step belongs."""

    key: str
    hash: str
    epoch: int


def load(objects: ObjectStore, store: RedisObjects, hash_: str, key: str, *, max_bytes: int) -> bool:
    """Copy an object from S3 into Redis. Return False if a write or another load intervened.

    Raises:
        ObjectNotFoundError, ObjectTooLargeError, OriginError: The object cannot be read from S3.
        RedisDownError: The node's Redis does not answer.
    """
    token = store.take_lease(hash_)  # before the read from S3, since a write revokes the lease
    return store.put(hash_, objects.fetch(key, max_bytes=max_bytes), token)


@dataclass(frozen=True, slots=True)
class KeyOnNode:
    """The lifecycle steps of keys on one node. Every step is idempotent."""

    node: str
    runs: NodeRuns
    nodes: NodeTable
    keys: KeyTable
    executions: Executions
    objects: ObjectStore
    store: Callable[[], RedisObjects]
    request_from_cache: RequestFromCache
    max_object_bytes: int
    clock: Clock
    meter: Meter

    def join(self, life: LifeOnNode, token: str) -> Done:
        """Run RedisBootup: lease the node and ensure that it boots. Complete the token once the node is ready."""
        deadline_us = self._in_s(BOOTUP_S)
        joined = KeyColumns(phase="redis_bootup", deadline_at_us=deadline_us, joined_at_us=self.clock.now_us())
        self._change(life, joined)
        row = self.nodes.join(Lease(self.node, life.hash, life.key, life.epoch, waiter=token))
        running = self.runs.ensure_booting(row)
        if running:
            self.executions.succeed(token, NodeReady(generation=running.generation))
        return Done()

    def hold(self, for_s: int) -> Held:
        """Keep the node running for a while without a key (development API)."""
        self.store()  # raises NodeAbsentError, since the row of a missing node would stay forever
        row = self.runs.hold(self.nodes.read(self.node), until_us=self._in_s(for_s))
        return Held(phase=row.phase, held_until_us=row.held_until_us)

    def seed(self, life: LifeOnNode, generation: int) -> Seeded:
        """Run SeedRedis: put the object into Redis, then add the route to Redis, then stop the cache function.

        If the object is gone or too large, drop the lease. RedisRunning detects the missing lease and ends the life,
        because a branch in SeedRedis would cost every life a state transition.

        Raises:
            OriginError: The object cannot be read from S3.
            RedisDownError: The node's Redis does not answer.
            SupersededError: The key belongs to a newer life.
            ContendedRowTransientError: A write arrived during every load.
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

    def leave(self, life: LifeOnNode, *, queue_us: Sequence[int], is_failed: bool, failures: int) -> Left:
        """Run RedisShutdown: remove the route, the entry and the lease. S3 serves the key again.

        Once the life has ended, a repeat has no effect.
        """
        leaving = KeyColumns(phase="redis_shutdown")
        row = self.keys.update(life.hash, epoch=life.epoch, set_=leaving, remove=["tier"])
        if row is not None:
            with suppress(RedisDownError, NodeAbsentError):  # the entry is lost with the node
                self.store().remove(life.hash)
        self.nodes.drop(Lease(self.node, life.hash, epoch=life.epoch))
        self._stop_cache(life)
        if row is not None:
            self._return_to_s3(life, queue_us, failures=failures if is_failed else None)
            self.meter.left_redis(is_failed=is_failed)
        left = _left(row, queue_us)
        if row is not None and (task_kind := self._task_kind(row.generation)):
            left["task_kind"] = task_kind
        return left

    def _task_kind(self, generation: int) -> str:
        """Return the kind of the task of the node's run, or an empty text if nothing depends on it."""
        if not self.meter.prices.on_demand_usd_per_s:
            return ""
        node = self.nodes.read(self.node)
        return node.task_kind if node.generation == generation else ""

    def _load(self, life: LifeOnNode) -> None:
        for _ in range(_MOST_LOADS):
            if load(self.objects, self.store(), life.hash, life.key, max_bytes=self.max_object_bytes):
                return
        raise ContendedRowTransientError(f"{life.key!r} was written during each of {_MOST_LOADS} loads")

    def _stop_cache(self, life: LifeOnNode) -> list[RecordedRequest]:
        try:
            return window_of(self.request_from_cache(life.hash, Stop(op="stop", epoch=life.epoch)))
        except RelayDownError:
            return []  # without the relay, readers cannot reach the cache function either, and it ends by itself

    def _return_to_s3(self, life: LifeOnNode, queue_us: Sequence[int], *, failures: int | None) -> None:
        now_us = self.clock.now_us()
        returned = KeyColumns(phase="s3", changed_at_us=now_us)
        remove: list[KeyColumn] = ["holder", "node", "generation", "deadline_at_us"]
        if failures is None:
            remove += ["failures", "not_before_us"]
        else:
            returned["failures"] = failures + 1
            returned["not_before_us"] = now_us + cool_down_us(failures)
        served = [RecordedRequest(at_us, f"redis-{at_us}") for at_us in queue_us]
        self.keys.update(life.hash, epoch=life.epoch, set_=returned, remove=remove, append_window=served)

    def _change(self, life: LifeOnNode, columns: KeyColumns) -> KeyRow:
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
