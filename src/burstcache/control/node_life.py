"""The life of a Redis node, step by step as `redis_node.asl.json` walks it. Every step may run twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import (
    ContendedRowTransientError,
    NodeFailedError,
    RedisDownError,
    SupersededError,
)
from burstcache.core.keys import next_number
from burstcache.core.messages import Done, NodePlan, NodeReady, NodeStopped, RedisOver, node_execution_input
from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.policy import CHECK_LATENESS_US, STRAGGLERS_US, is_released, newest_queue, plan_check
from burstcache.core.table import Lease, LeaseColumns, NodeRow

_BOOT_DEADLINE_S = 420  # StartNode with its retries, AwaitNode
_STOP_DEADLINE_S = 460  # StopNode
_PING_FOR_S = 220  # within AwaitNode's time-out
_SECOND_LOOK_S = 1  # after a check that Redis did not answer
_ROUTE_AGE_S = 3  # a reader's digest is at most 2 s old: after this nobody asks a node that it no longer shows


@dataclass(frozen=True, slots=True)
class NodeLife:
    """What Redis control does for one node."""

    node: str
    nodes: NodeTable
    keys: KeyTable
    digest: DigestTable
    executions: Executions
    instances: Instances
    machine_arn: str
    parameters: Parameters
    store: Callable[[], RedisObjects]
    clock: Clock

    def boot(self, seen: NodeRow) -> NodeRow | None:
        """Start a new generation of a stopped node; None if another writer has changed the row meanwhile."""
        now = self.clock.now_us()
        row = self.nodes.change(
            seen,
            phase="booting",
            generation=next_number(seen.generation, now_us=now),
            part=1,
            deadline_at_us=now + _BOOT_DEADLINE_S * US_PER_S,
        )
        if row is not None:
            self.run(row)
        return row

    def run(self, row: NodeRow) -> bool:
        """Start the node's execution unless it runs; False if it has ended."""
        return self.executions.start(self.machine_arn, row.execution_name, node_execution_input(row))

    def start(self, generation: int) -> Done:
        """StartNode: start the instance."""
        self._row(generation)
        self.instances.start(self.node)
        return Done()

    def await_ready(self, generation: int) -> NodePlan:
        """AwaitNode: wait until Redis answers, mark the node running, complete the tasks of the waiting keys.

        The order closes the race with a join: first the row says `running`, then the leases are read; a later join
        sees `running` and does not wait.
        """
        row = self._row(generation)
        if row.phase == "booting":
            self._await_ping()
            if not self._live_leases():
                return self._next_if_unused(row, at_us=self.clock.now_us())
            ready_us = self.clock.now_us()
            marked = self._mark_running(row, ready_us)
            if marked is None:
                return self.await_ready(generation)  # a repeat of this step was faster
            row = marked
        self.digest.show_node(row)
        for lease in self.nodes.leases(self.node):
            if lease.waiter:
                self.executions.succeed(lease.waiter, NodeReady(generation=generation))
        return self._plan(row, [], after_us=row.ready_at_us, checks=0)

    def check(self, generation: int, *, check_at_us: int, checks: int) -> NodePlan:
        """CheckNodeUse: release every key whose last five requests are no longer within `redis_utilization`.

        Args:
            generation: The run that the check belongs to.
            check_at_us: The check's nominal instant, which decides; it runs a little later [us].
            checks: How many checks this part of the execution has made before.
        """
        row = self._row(generation)
        leases = self._live_leases()
        try:
            queues = self._queues([lease.hash for lease in leases])
        except RedisDownError:
            return self._lose(row)
        kept = []
        for lease in leases:
            queue = newest_queue(queues.get(lease.hash, ()))
            if not self._release(lease, queue, check_at_us):
                kept.append(queue)
        if not kept:
            return self._next_if_unused(row, at_us=check_at_us)
        return self._plan(row, kept, after_us=max(check_at_us, self.clock.now_us() - STRAGGLERS_US), checks=checks)

    def stop(self, generation: int) -> NodeStopped:
        """StopNode: wait until no reader asks, stop the instance; boot it again if a key has joined meanwhile."""
        row = self._row(generation)
        if row.phase == "stopping":
            self.digest.show_node(row)
            self.clock.sleep(_ROUTE_AGE_S)
            self.instances.stop(self.node)
        return self._stopped_or_boot(row)

    def abandon(self, generation: int) -> NodeStopped:
        """AbandonNode: after a failure, fail the waiting keys, unroute the others, stop the instance."""
        row = self._row(generation)
        if row.phase in ("booting", "running"):
            row = self._mark_stopping(row) or self._row(generation)
        self.digest.show_node(row)
        self._release_all(NodeFailedError(f"Redis node {self.node} failed in generation {generation}"))
        self.instances.stop(self.node)
        return self._stopped_or_boot(row)

    def stop_by_hand(self) -> NodeStopped:
        """Stop a node and end its execution, for a person or the janitor."""
        row = self.nodes.read(self.node)
        if row.phase == "stopped":
            self.instances.stop(self.node)  # a person may have started it elsewhere
            return NodeStopped(phase="stopped")
        self.executions.stop(self.machine_arn, row.execution_name, cause="the node is stopped by hand")
        return self.abandon(row.generation)

    def _row(self, generation: int) -> NodeRow:
        row = self.nodes.read(self.node)
        if row.generation != generation:
            raise SupersededError(f"node {self.node}: generation {generation} is over, it is in {row.generation}")
        return row

    def _await_ping(self) -> None:
        give_up_s = self.clock.monotonic_s() + _PING_FOR_S
        while True:
            try:
                return self.store().ping()
            except RedisDownError as error:
                if self.clock.monotonic_s() > give_up_s:
                    raise NodeFailedError(
                        f"Redis on {self.node} did not answer within {_PING_FOR_S} s: {error}"
                    ) from error
                self.clock.sleep(0.2)

    def _queues(self, hashes: list[str]) -> Mapping[str, tuple[int, ...]]:
        """Return the newest times of keys. A second attempt keeps one slow answer from costing all keys their node."""
        try:
            return self.store().queues(hashes)
        except RedisDownError:
            self.clock.sleep(_SECOND_LOOK_S)
            return self.store().queues(hashes)

    def _live_leases(self) -> list[Lease]:
        """Return the leases that still need the node; drop those whose execution died or whose hold ran out."""
        leases = self.nodes.leases(self.node)
        now = self.clock.now_us()
        rows = self.keys.read_many(lease.hash for lease in leases if lease.key)
        live = []
        for lease in leases:
            row = rows.get(lease.hash)
            wanted = (
                row is not None and row.epoch == lease.epoch and row.is_live(now)
                if lease.key
                else lease.held_until_us > now
            )
            if wanted:
                live.append(lease)
            else:
                self.nodes.drop(lease)
        return live

    def _release(self, lease: Lease, queue_us: tuple[int, ...], check_at_us: int) -> bool:
        """Release the key if it is idle, or if two checks in a row found nothing of it in Redis.

        Returns:
            Whether it was released. A lease without a running token is on its way to RedisRunning and is checked again.
        """
        if not lease.key:
            return False
        if lease.was_missing == bool(queue_us):
            self.nodes.change_lease(lease, LeaseColumns(was_missing=0 if queue_us else 1))
        may_go = is_released(
            queue_us, was_missing=lease.was_missing, check_at_us=check_at_us, parameters=self.parameters
        )
        if not (may_go and lease.running):
            return False
        self.executions.succeed(lease.running, RedisOver(outcome="idle", queue_us=list(queue_us)))
        self.nodes.drop(lease)
        return True

    def _plan(self, row: NodeRow, queues_us: list[tuple[int, ...]], *, after_us: int, checks: int) -> NodePlan:
        check = plan_check(
            queues_us, ready_at_us=row.ready_at_us, after_us=after_us, checks=checks, parameters=self.parameters
        )
        # The row names the successor before it starts: at any time the part in the row or the one before it is running.
        self.nodes.change(row, part=row.part + check.is_in_successor, deadline_at_us=check.deadline_us)
        return NodePlan(
            next="continue_in_successor" if check.is_in_successor else "continue",
            wait_until=datetime.fromtimestamp(check.wait_until_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            check_at_us=str(check.check_at_us),  # as text: JSONata writes only 15 digits of a number
        )

    def _next_if_unused(self, row: NodeRow, *, at_us: int) -> NodePlan:
        """Mark an unused node as stopping, unless a key has joined since the row was read."""
        if self._mark_stopping(row, no_join_since=True) is not None:
            return NodePlan(next="stop")
        row = self._row(row.generation)
        if row.phase == "stopping":  # a repeat of this step was faster
            return NodePlan(next="stop")
        if row.phase == "booting":
            return self.await_ready(row.generation)
        return self._plan(row, [], after_us=at_us, checks=0)

    def _mark_running(self, row: NodeRow, ready_us: int) -> NodeRow | None:
        deadline_us = ready_us + CHECK_LATENESS_US
        return self.nodes.change(row, phase="running", ready_at_us=ready_us, deadline_at_us=deadline_us)

    def _mark_stopping(self, row: NodeRow, *, no_join_since: bool = False) -> NodeRow | None:
        deadline_us = self.clock.now_us() + _STOP_DEADLINE_S * US_PER_S
        return self.nodes.change(row, no_join_since=no_join_since, phase="stopping", deadline_at_us=deadline_us)

    def _lose(self, row: NodeRow) -> NodePlan:
        """Give all keys back: the node died.

        Its keys are unrouted once its row stops saying `running` (`docs/understand/lifecycle.md`, rule 4).
        """
        self.digest.show_node(self._mark_stopping(row) or self._row(row.generation))
        self._release_all(NodeFailedError(f"Redis on {self.node} does not answer any more"))
        return NodePlan(next="stop")

    def _release_all(self, error: NodeFailedError) -> None:
        for lease in self.nodes.leases(self.node):
            if lease.waiter:
                self.executions.fail(lease.waiter, error)
            if lease.running:
                self.executions.succeed(lease.running, RedisOver(outcome="node_lost"))
            self.nodes.drop(lease)

    def _stopped_or_boot(self, row: NodeRow) -> NodeStopped:
        """Mark the node stopped if no lease has come meanwhile, else start its next generation."""
        for _ in range(10):
            row = self._row(row.generation)
            if row.phase == "stopped":
                return NodeStopped(phase="stopped")
            if self._live_leases():
                if (booting := self.boot(row)) is not None:
                    return NodeStopped(phase="booting", generation=booting.generation)
            elif self.nodes.change(row, no_join_since=True, phase="stopped", deadline_at_us=0) is not None:
                return NodeStopped(phase="stopped")
        raise ContendedRowTransientError(f"node {self.node}: keys came and went at every attempt to mark it stopped")
