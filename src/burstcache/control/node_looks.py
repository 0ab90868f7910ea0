"""Looks at a running node that takes guests: what it has served says how long it pays."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.redis_objects import Hit, RedisObjects
from burstcache.adapters.use_table import UseTable
from burstcache.control.node_judge import Verdict, asked_twice
from burstcache.core.errors import ContendedRowTransientError
from burstcache.core.node_use import FIRST_LOOK_US, MOST_HITS, NodeUse, learn_hits, use_or_first
from burstcache.core.policies import UsePolicy
from burstcache.core.rows import Lease, NodeRow

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class UseJudge:
    """A node runs as long as its use pays for it, or a person holds it. It notes what it has learned in the use."""

    policy: UsePolicy
    uses: UseTable
    store: Callable[[], RedisObjects]
    clock: Clock
    chance: Callable[[], float] = random.random  # from 0 to 1: spreads out the attempts of writers that collided

    def first_look_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the end of the minute that is billed anyway: whether anybody uses the node is seen then [us]."""
        return after_us + FIRST_LOOK_US

    def look(self, row: NodeRow, leases: Sequence[Lease], *, look_at_us: int) -> Verdict:
        """Learn what the node has served; it stops if that no longer pays and nobody holds it.

        Leases of keys are of the time before the stack's policy changed: they are given back.
        """
        next_us = self._next_us(row, look_at_us)
        if next_us is None:
            next_us = max((lease.held_until_us for lease in leases if not lease.key), default=None)
        return Verdict([(lease, ()) for lease in leases if lease.key and lease.running], next_us)

    def _next_us(self, row: NodeRow, look_at_us: int) -> int | None:
        noted = asked_twice(lambda: self.store().hits(), self.clock)
        for attempt in range(_ATTEMPTS):
            stored = self.uses.read(row.node)
            use = use_or_first(self.policy.node, stored.use)
            since_us = max(stored.looked_at_us, row.ready_at_us)
            if since_us < look_at_us:
                use = self._learned(use, noted, since_us=since_us, until_us=look_at_us)
                if not self.uses.write(row.node, use, seen=stored, looked_at_us=look_at_us):
                    self.clock.sleep(self.chance() * 0.01 * 2**attempt)
                    continue
            return self.policy.node.next_look_us(use, since_us=row.ready_at_us, at_us=look_at_us)
        raise ContendedRowTransientError(f"the use of {row.node} changed under {_ATTEMPTS} attempts to learn its hits")

    def _learned(self, use: NodeUse, noted: Sequence[Hit], *, since_us: int, until_us: int) -> NodeUse:
        """Return the use with the hits after one look and up to the next; `noted` has the newest first.

        A look is on its way for seconds, in which hits that belong to it may have been pushed out. Where none is left,
        those that came instead stand for them, as if they had come as much earlier.
        """
        worth, times_us = self.policy.worth, [hit.at_us for hit in noted]
        is_cut = len(noted) >= MOST_HITS and min(times_us) > since_us
        late_us = max(times_us) - until_us if is_cut and min(times_us) > until_us else 0
        hits = sorted(
            (hit.at_us - late_us, worth.weight_of(hit.size_bytes))
            for hit in noted
            if since_us < hit.at_us - late_us <= until_us
        )
        return learn_hits(self.policy.node, use, hits, is_cut=is_cut)
