"""The read-through entries of running nodes: objects that readers load, and that have no life of their own.

Before a write is announced, it removes the entry and revokes its load lease (`control/node_copies.py`), so that no
older object is stored afterwards. Every write to a key therefore reaches the key's home node unless the node's row says
`stopped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from burstcache.adapters.clock import Clock
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.use_table import UseTable
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError
from burstcache.core.node_use import MAX_LOADS
from burstcache.core.policies import UsePolicy
from burstcache.core.recency import SEEN_WITHIN_US
from burstcache.core.rows import NodeRow, SeenKey
from burstcache.logs import logger

_LOAD_FOR_S = 10.0  # the node costs money meanwhile, and no reader uses it yet
_LOADED_SHARE = 2  # at most half of the node's memory, since later reads need room, too
_THREADS = 8
_BATCH = 32  # leases taken per call, few enough to be used well before they expire


@dataclass(frozen=True, slots=True)
class ReadThroughLoader:
    """A loader that warms nodes up with read-through entries. It is idempotent."""

    uses: UseTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # takes a node's name
    max_object_bytes: int
    clock: Clock
    policy: UsePolicy | None = None  # if None, nodes that boot from now on hold no read-through entries

    def load(self, row: NodeRow, *, is_always_on: bool = False) -> None:
        """Load recently requested objects that are worth loading, newest first, before the node enters the digest.

        The node's row already says `running`, so writes reach the node. Readers load the objects that are skipped here.
        The node has a list of the skipped objects, so that requests for them count as hits.
        """
        if not row.peers or self.policy is None:
            return
        give_up_s, loaded = self.clock.monotonic_s() + _LOAD_FOR_S, 0
        try:
            store = self.store(row.node)
            seen = self._seen_lately(row)
            store.leave_out({key.hash: key.size_bytes for key in seen})
            run_us = SEEN_WITHIN_US if is_always_on else self._run_us(row, self.policy)
            paying = [key for key in seen if _pays(self.policy, row, key, run_us)]
            wanted = _that_fit(paying, room_bytes=store.memory_bytes() // _LOADED_SHARE)
            with ThreadPoolExecutor(_THREADS) as threads:
                while wanted and self.clock.monotonic_s() < give_up_s:
                    batch, wanted = wanted[:_BATCH], wanted[_BATCH:]
                    token_of = store.lease(key.hash for key in batch)
                    leased = [key for key in batch if key.hash in token_of]
                    tokens = [token_of[key.hash] for key in leased]
                    loaded += sum(threads.map(partial(self._load, store, give_up_s), leased, tokens))
        except Exception as error:  # the node serves without these entries
            logger().warning("read-through entries not loaded", node=row.node, reason=repr(error))
        logger().info("read-through entries loaded", node=row.node, loaded=loaded)

    def _seen_lately(self, row: NodeRow) -> list[SeenKey]:
        """Return recently requested keys with this home node and an acceptable size, newest first."""
        newest = self.uses.newest_seen(row.node, now_us=row.ready_at_us)
        return [key for key in newest if key.size_bytes <= self.max_object_bytes and row.is_home_of(key.hash)]

    def _run_us(self, row: NodeRow, policy: UsePolicy) -> int:
        """Return the minimum running time of a node that has just become ready [us]."""
        use = self.uses.read(row.node).use_by(policy.node)
        return policy.running(row.task_kind).stop_us(use, row.ready_at_us) - row.ready_at_us

    def _load(self, store: RedisObjects, give_up_s: float, key: SeenKey, token: str) -> bool:
        if self.clock.monotonic_s() >= give_up_s:  # its lease expires by itself
            return False
        try:
            entry = self.objects.fetch(key.key, max_bytes=self.max_object_bytes)
        except (ObjectNotFoundError, ObjectTooLargeError):
            return False
        return store.store_guest(key.hash, entry, token)


def _pays(policy: UsePolicy, row: NodeRow, key: SeenKey, run_us: int) -> bool:
    age_us, weight = row.ready_at_us - key.seen_at_us, policy.worth.weight_of(key.size_bytes)
    return policy.load.loads(age_us=age_us, run_us=run_us, weight=weight)


def _that_fit(keys: Sequence[SeenKey], *, room_bytes: int) -> list[SeenKey]:
    """Return the first keys that fit into `room_bytes` (0: no limit) and into the limit of one warm-up."""
    held_bytes = accumulate(key.size_bytes for key in keys)
    fitting = [key for key, held in zip(keys, held_bytes, strict=True) if held <= room_bytes or not room_bytes]
    return fitting[:MAX_LOADS]
