"""The utilisation of a running node: which keys to release, whether to stop, and when to check again."""

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
_RETRY_S = 1  # before the retry of a call that Redis did not answer
_ALWAYS_ON_STEP_US = 3600 * US_PER_S  # between checks of a node without keys to release


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a utilisation check.

    Attributes:
        released: The leases to release, each with the last request times of its key, oldest first [us].
        check_at_us: The nominal time of the next check [us], or None if the node is unused.
    """

    released: Sequence[tuple[Lease, tuple[int, ...]]]
    check_at_us: int | None


class UtilisationCheck(Protocol):
    """A utilisation check of one node. It updates only its own records; `NodeLife` acts on the verdict."""

    def first_check_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the time of the next check after a node has become ready or a key has joined it.

        Args:
            row: The node's row.
            leases: Its live leases.
            after_us: The check is later than this time [us].

        Returns:
            The nominal time [us], or None if the node is unused.
        """

    def check_node(self, row: NodeRow, leases: Sequence[Lease], *, check_at_us: int) -> Verdict:
        """Check the node, and return the verdict.

        Args:
            row: The node's row.
            leases: Its live leases.
            check_at_us: The nominal time of the check, for which it decides [us]. The check runs slightly later.

        Raises:
            RedisDownError: The node's Redis does not answer.
        """


def retried_once(call: Callable[[], _T], clock: Clock) -> _T:
    """Call a node's Redis and return the result. Retry once, as a single slow response must not end the node's run."""
    try:
        return call()
    except RedisDownError:
        clock.sleep(_RETRY_S)
        return call()


@dataclass(frozen=True, slots=True)
class LeaseUtilisation:
    """The thesis's utilisation check. A node runs while a person holds it or a key keeps a lease by its requests."""

    nodes: NodeTable
    store: Callable[[], RedisObjects]
    parameters: Parameters
    clock: Clock

    def first_check_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the time of the first check after `after_us`, or None without a lease or hold."""
        return self._next(row, [()], after_us) if leases or row.is_held(self.clock.now_us()) else None

    def check_node(self, row: NodeRow, leases: Sequence[Lease], *, check_at_us: int) -> Verdict:
        """Release every key whose last five requests are no longer within `redis_utilization`."""
        hashes = [lease.hash for lease in leases]
        queues = retried_once(lambda: self.store().queues(hashes), self.clock)
        released: list[tuple[Lease, tuple[int, ...]]] = []
        kept: list[Sequence[int]] = [()] if row.is_held(self.clock.now_us()) else []
        for lease in leases:
            queue = newest_queue(queues.get(lease.hash, ()))
            if self._may_release(lease, queue, check_at_us):
                released.append((lease, queue))
            else:
                kept.append(queue)
        after_us = max(check_at_us, self.clock.now_us() - STRAGGLERS_US)
        return Verdict(released, self._next(row, kept, after_us) if kept else None)

    def _next(self, row: NodeRow, queues_us: Sequence[Sequence[int]], after_us: int) -> int:
        return next_check_us(queues_us, ready_at_us=row.ready_at_us, after_us=after_us, parameters=self.parameters)

    def _may_release(self, lease: Lease, queue_us: tuple[int, ...], check_at_us: int) -> bool:
        """Return whether to release a key that is idle, or had no request times in Redis at two consecutive checks.

        A lease without a running token has not reached RedisRunning yet, so a later check decides.
        """
        if lease.was_missing == bool(queue_us):
            self.nodes.change_lease(lease, LeaseColumns(was_missing=0 if queue_us else 1))
        is_idle = is_released(
            queue_us, was_missing=lease.was_missing, check_at_us=check_at_us, parameters=self.parameters
        )
        return is_idle and bool(lease.running)


@dataclass(frozen=True, slots=True)
class DailyLimit:
    """A limit on the hours that a node runs per day. At the limit even a used node stops, unless a person holds it."""

    check: UtilisationCheck
    hours: int
    clock: Clock

    def first_check_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the time of the wrapped check, or of the limit if that is sooner, or None at the limit."""
        check_at_us = self.check.first_check_us(row, leases, after_us=after_us)
        return self._limited(row, check_at_us)

    def check_node(self, row: NodeRow, leases: Sequence[Lease], *, check_at_us: int) -> Verdict:
        """Release the leases that the wrapped check releases, or all leases at the limit. Propagate RedisDownError."""
        verdict = self.check.check_node(row, leases, check_at_us=check_at_us)
        next_us = self._limited(row, verdict.check_at_us)
        if next_us is None and verdict.check_at_us is not None:
            return Verdict([(lease, ()) for lease in leases if lease.running], None)
        return Verdict(verdict.released, next_us)

    def _limited(self, row: NodeRow, check_at_us: int | None) -> int | None:
        now_us = self.clock.now_us()
        if check_at_us is None or row.is_held(now_us):
            return check_at_us
        most_us = self.hours * HOUR_US
        limit_us = used_up_at_us(row.used_today_us(now_us), most_us=most_us, now_us=now_us)
        return min(check_at_us, limit_us) if limit_us > now_us else None


@dataclass(frozen=True, slots=True)
class AlwaysOn:
    """A check that always counts a node as used. The wrapped check still releases keys."""

    check: UtilisationCheck

    def first_check_us(self, row: NodeRow, leases: Sequence[Lease], *, after_us: int) -> int | None:
        """Return the time of the wrapped check, or an hour after `after_us` if it has none."""
        check_at_us = self.check.first_check_us(row, leases, after_us=after_us)
        return after_us + _ALWAYS_ON_STEP_US if check_at_us is None else check_at_us

    def check_node(self, row: NodeRow, leases: Sequence[Lease], *, check_at_us: int) -> Verdict:
        """Release the leases that the wrapped check releases. Propagate RedisDownError."""
        verdict = self.check.check_node(row, leases, check_at_us=check_at_us)
        if verdict.check_at_us is not None:
            return verdict
        return Verdict(verdict.released, check_at_us + _ALWAYS_ON_STEP_US)
