"""The utilisation of a node with read-through entries, which runs as long as its use pays for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock, back_off
from burstcache.adapters.redis_objects import Hit, RedisObjects
from burstcache.adapters.use_table import UseTable
from burstcache.control.node_utilisation import Verdict, retried_once
from burstcache.core.errors import ContendedRowTransientError
from burstcache.core.node_memory import sampled
from burstcache.core.node_use import FIRST_CHECK_US, MAX_HITS, NodeUse, learn_hits
from burstcache.core.policies import UsePolicy
from burstcache.core.rows import Lease, NodeRow

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class UseUtilisation:
    """A utilisation check that updates and evaluates a node's use. The node runs while it pays or a person holds it."""

    policy: UsePolicy
    uses: UseTable
    store: Callable[[], RedisObjects]
    clock: Clock
    chance: Callable[[], float] = random.random  # from 0 to 1: jitter of retries after a write conflict

    def first_check_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the end of the first minute, which is billed in any case [us]."""
        return after_us + FIRST_CHECK_US

    def check_node(self, row: NodeRow, leases: Sequence[Lease], *, check_at_us: int) -> Verdict:
        """Count the node's hits in its use, and sample its memory. Stop it if its use does not pay and nobody holds it.

        Release keys' leases, which date from before the stack's policy was changed.
        """
        next_us = self._next_us(row, check_at_us)
        if next_us is None and row.is_held(self.clock.now_us()):
            next_us = row.held_until_us
        return Verdict([(lease, ()) for lease in leases if lease.running], next_us)

    def _next_us(self, row: NodeRow, check_at_us: int) -> int | None:
        hits = retried_once(lambda: self.store().hits(), self.clock)
        sample = retried_once(lambda: self.store().memory_sample(), self.clock)
        for attempt in range(_ATTEMPTS):
            stored = self.uses.read(row.node)
            use = stored.use_by(self.policy.node)
            since_us = max(stored.looked_at_us, row.ready_at_us)
            if since_us < check_at_us:
                use = self._learned(use, hits, since_us=since_us, until_us=check_at_us)
                memory, is_same_run = stored.memory, stored.looked_at_us >= row.ready_at_us
                if sample is not None:
                    memory = sampled(memory, sample, ran_us=check_at_us - since_us, is_same_run=is_same_run)
                if not self.uses.write(row.node, use, seen=stored, looked_at_us=check_at_us, memory=memory):
                    back_off(self.clock, attempt, self.chance)
                    continue
            rule = self.policy.running(row.task_kind)
            return rule.next_check_us(use, since_us=row.ready_at_us, at_us=check_at_us)
        raise ContendedRowTransientError(f"the use of {row.node} changed under {_ATTEMPTS} attempts to learn its hits")

    def _learned(self, use: NodeUse, hits: Sequence[Hit], *, since_us: int, until_us: int) -> NodeUse:
        """Return the use after the hits between two checks. `hits` is sorted newest first.

        A check runs seconds late, so newer hits may have displaced the hits of its interval from the list. If none of
        the interval's hits is left, count the newer hits instead, shifted back into the interval.
        """
        worth, times_us = self.policy.worth, [hit.at_us for hit in hits]
        is_cut = len(hits) >= MAX_HITS and min(times_us) > since_us
        late_us = max(times_us) - until_us if is_cut and min(times_us) > until_us else 0
        counted = sorted(
            (hit.at_us - late_us, worth.weight_of(hit.size_bytes))
            for hit in hits
            if since_us < hit.at_us - late_us <= until_us
        )
        return learn_hits(self.policy.node, use, counted, is_cut=is_cut)
