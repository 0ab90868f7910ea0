"""Guests of running nodes: objects that readers bring and that have no life of their own.

A write removes a guest and its loading lease (`control/node_copies.py`) before it is announced, so nothing older is
brought afterwards. A node whose row does not say `stopped` therefore hears of every write to a key whose home it is.
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
from burstcache.core.node_use import MOST_LOADS, use_or_first
from burstcache.core.policies import UsePolicy
from burstcache.core.rows import NodeRow, SeenKey
from burstcache.core.seen import SEEN_WITHIN_US
from burstcache.logs import logger

_LOAD_FOR_S = 10.0  # the node is paid for meanwhile, and readers do without it
_LOADED_SHARE = 2  # of the node's bytes at most one in two: what is asked for needs room, too
_THREADS = 8
_BATCH = 32  # leases that are taken at once: they are used up well before they run out


@dataclass(frozen=True, slots=True)
class Guests:
    """What the control plane does for guests. Every step may run twice."""

    uses: UseTable
    objects: ObjectStore
    store: Callable[[str], RedisObjects]  # by the node's name
    max_object_bytes: int
    clock: Clock
    policy: UsePolicy | None = None  # None: nodes that boot from now on take no guests

    def load(self, row: NodeRow, *, is_always_on: bool = False) -> None:
        """Bring the keys seen lately that pay for it, the newest first, before readers are shown the node.

        The row says `running`, so writes are heard of. What is left out, and what fails, the readers bring; the node
        knows those keys, since a request for one counts as a hit would.
        """
        if not row.peers or self.policy is None:
            return
        give_up_s, loaded = self.clock.monotonic_s() + _LOAD_FOR_S, 0
        try:
            store = self.store(row.node)
            lately = self._seen_lately(row)
            store.leave_out({key.hash: key.size_bytes for key in lately})
            run_us = SEEN_WITHIN_US if is_always_on else self._run_us(row, self.policy)
            paying = [key for key in lately if _pays(self.policy, row, key, run_us)]
            wanted = _that_fit(paying, room_bytes=store.memory_bytes() // _LOADED_SHARE)
            with ThreadPoolExecutor(_THREADS) as threads:
                while wanted and self.clock.monotonic_s() < give_up_s:
                    batch, wanted = wanted[:_BATCH], wanted[_BATCH:]
                    token_of = store.lease(key.hash for key in batch)
                    leased = [key for key in batch if key.hash in token_of]
                    tokens = [token_of[key.hash] for key in leased]
                    loaded += sum(threads.map(partial(self._load, store, give_up_s), leased, tokens))
        except Exception as error:  # the node serves without them
            logger().warning("guests not loaded", node=row.node, reason=repr(error))
        logger().info("guests loaded", node=row.node, loaded=loaded)

    def _seen_lately(self, row: NodeRow) -> list[SeenKey]:
        """Return the keys that a node may be asked for and can hold, the newest first."""
        newest = self.uses.newest_seen(row.node, now_us=row.ready_at_us)
        return [key for key in newest if key.size_bytes <= self.max_object_bytes and row.is_home_of(key.hash)]

    def _run_us(self, row: NodeRow, policy: UsePolicy) -> int:
        """Return how long a node runs at least that has just got ready [us]."""
        use = use_or_first(policy.node, self.uses.read(row.node).use)
        return policy.node.stop_us(use, row.ready_at_us) - row.ready_at_us

    def _load(self, store: RedisObjects, give_up_s: float, key: SeenKey, token: str) -> bool:
        if self.clock.monotonic_s() >= give_up_s:  # its lease runs out by itself
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
    """Return the first keys, as many as are loaded at once and as there is room for; 0 bytes: there is no limit."""
    held_bytes = accumulate(key.size_bytes for key in keys)
    fitting = [key for key, held in zip(keys, held_bytes, strict=True) if held <= room_bytes or not room_bytes]
    return fitting[:MOST_LOADS]
