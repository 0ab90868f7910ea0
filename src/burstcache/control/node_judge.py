"""Who uses a running node: which keys it gives back, whether it stops, and when to look again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from burstcache.adapters.clock import Clock
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import RedisDownError
from burstcache.core.node_hours import HOUR_US, used_up_at_us
from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.policy import STRAGGLERS_US, is_released, newest_queue, next_check_us
from burstcache.core.rows import Lease, NodeRow
from burstcache.core.table import LeaseColumns

_T = TypeVar("_T")
_SECOND_LOOK_S = 1  # after a look that Redis did not answer
_ALWAYS_ON_STEP_US = 3600 * US_PER_S  # between looks at a node that has nothing to give back


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at a running node has found.

    Attributes:
        released: The leases to give back, each with the last request times of its key, oldest first [us].
        look_at_us: The nominal instant of the next look [us]; None if nobody uses the node.
    """

    released: Sequence[tuple[Lease, tuple[int, ...]]]
    look_at_us: int | None


class NodeJudge(Protocol):
    """Judges one node. It writes to nothing but its own notes: `NodeLife` does what the verdict says."""

    def first_look_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return when to look at a node that has become ready, or that a key has joined since the last look.

        Args:
            row: The node's row.
            leases: Its leases, those of dead keys dropped.
            after_us: The answer is later than this instant [us].

        Returns:
            The nominal instant [us]; None if nobody uses the node.
        """

    def look(self, row: NodeRow, leases: Sequence[Lease], *, look_at_us: int) -> Verdict:
        """Return what a look finds.

        Args:
            row: The node's row.
            leases: Its leases, those of dead keys dropped.
            look_at_us: The look's nominal instant, which decides; it runs a little later [us].

        Raises:
            RedisDownError: The node's Redis does not answer.
        """


def asked_twice(ask: Callable[[], _T], clock: Clock) -> _T:
    """Return what a node's Redis answers. A second attempt keeps one slow answer from costing everybody the node."""
    try:
        return ask()
    except RedisDownError:
        clock.sleep(_SECOND_LOOK_S)
        return ask()


@dataclass(frozen=True, slots=True)
class LeaseJudge:
    """The thesis's judge: a node runs as long as it has a lease, and each key is judged by its own last requests."""

    nodes: NodeTable
    store: Callable[[], RedisObjects]
    parameters: Parameters
    clock: Clock

    def first_look_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the first check after an instant; None without a lease."""
        return self._next(row, [()], after_us) if leases else None

    def look(self, row: NodeRow, leases: Sequence[Lease], *, look_at_us: int) -> Verdict:
        """Release every key whose last five requests are no longer within `redis_utilization`."""
        hashes = [lease.hash for lease in leases]
        queues = asked_twice(lambda: self.store().queues(hashes), self.clock)
        released, kept = [], []
        for lease in leases:
            queue = newest_queue(queues.get(lease.hash, ()))
            if self._may_go(lease, queue, look_at_us):
                released.append((lease, queue))
            else:
                kept.append(queue)
        after_us = max(look_at_us, self.clock.now_us() - STRAGGLERS_US)
        return Verdict(released, self._next(row, kept, after_us) if kept else None)

    def _next(self, row: NodeRow, queues_us: Sequence[Sequence[int]], after_us: int) -> int:
        return next_check_us(queues_us, ready_at_us=row.ready_at_us, after_us=after_us, parameters=self.parameters)

    def _may_go(self, lease: Lease, queue_us: tuple[int, ...], look_at_us: int) -> bool:
        """Whether a key is idle, or two looks in a row have found nothing of it in Redis.

        A person's hold never is; a lease without a running token is on its way to RedisRunning and is looked at again.
        """
        if not lease.key:
            return False
        if lease.was_missing == bool(queue_us):
            self.nodes.change_lease(lease, LeaseColumns(was_missing=0 if queue_us else 1))
        may_go = is_released(
            queue_us, was_missing=lease.was_missing, check_at_us=look_at_us, parameters=self.parameters
        )
        return may_go and bool(lease.running)


@dataclass(frozen=True, slots=True)
class WithinTheDay:
    """Has a node stop when its hours of the day are used up, although keys use it, unless a person holds it."""

    judge: NodeJudge
    hours: int
    clock: Clock

    def first_look_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return when the other judge looks, or when the hours are used up; None if they are."""
        look_at_us = self.judge.first_look_us(row, leases, after_us=after_us)
        return self._limited(row, leases, look_at_us)

    def look(self, row: NodeRow, leases: Sequence[Lease], *, look_at_us: int) -> Verdict:
        """Release what the other judge releases, or everything; raise RedisDownError as it does."""
        verdict = self.judge.look(row, leases, look_at_us=look_at_us)
        next_us = self._limited(row, leases, verdict.look_at_us)
        if next_us is None and verdict.look_at_us is not None:
            return Verdict([(lease, ()) for lease in leases if lease.running], None)
        return Verdict(verdict.released, next_us)

    def _limited(self, row: NodeRow, leases: Sequence[Lease], look_at_us: int | None) -> int | None:
        if look_at_us is None or any(not lease.key for lease in leases):
            return look_at_us
        now_us = self.clock.now_us()
        most_us = self.hours * HOUR_US
        limit_us = used_up_at_us(row.used_today_us(now_us), most_us=most_us, now_us=now_us)
        return min(look_at_us, limit_us) if limit_us > now_us else None


@dataclass(frozen=True, slots=True)
class AlwaysOn:
    """Keeps a node running of which another judge releases the keys: it never has nobody who uses it."""

    judge: NodeJudge

    def first_look_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return when the other judge looks, an hour later at most."""
        look_at_us = self.judge.first_look_us(row, leases, after_us=after_us)
        return after_us + _ALWAYS_ON_STEP_US if look_at_us is None else look_at_us

    def look(self, row: NodeRow, leases: Sequence[Lease], *, look_at_us: int) -> Verdict:
        """Release what the other judge releases; raise RedisDownError as it does."""
        verdict = self.judge.look(row, leases, look_at_us=look_at_us)
        if verdict.look_at_us is not None:
            return verdict
        return Verdict(verdict.released, look_at_us + _ALWAYS_ON_STEP_US)
