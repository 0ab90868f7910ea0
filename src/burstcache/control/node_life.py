"""The lifecycle of a Redis node, in the steps of `redis_node.asl.json`. Every step is idempotent.

No step waits for a boot or a stop. An instance itself completes the token of `BootNode` when its Redis answers, and
EC2's event about the stopped instance completes the stop. A node on Fargate runs as an ECS task, which calls no AWS
API: ECS's events about the task complete the token, and end the run (`follow_task`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from burstcache.adapters.clock import Clock, back_off
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.machines import Machines
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.tasks import Tasks, TaskState
from burstcache.control.meter import Meter
from burstcache.control.node_runs import NodeRuns
from burstcache.control.node_utilisation import UtilisationCheck
from burstcache.control.retry import retry_until_answered
from burstcache.core.deadlines import BOOT_S, SAVE_S, STOP_S
from burstcache.core.digest import FORGOTTEN_S
from burstcache.core.errors import (
    BurstcacheError,
    ContendedRowTransientError,
    NodeFailedError,
    RedisDownError,
    SupersededError,
)
from burstcache.core.messages.answers import (
    NODE_RUN,
    Done,
    NodePlan,
    NodeReady,
    NodeStopped,
    RedisOver,
    RunEnds,
    RunOver,
)
from burstcache.core.messages.encoding import iso
from burstcache.core.node_hours import DAY_HOURS, HOUR_US, day_of, next_day_us
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import CHECK_LATENESS_US, checks_after, cool_down_us, plan_check
from burstcache.core.rows import KeyRow, Lease, NodeRow
from burstcache.core.table import NodeColumns
from burstcache.logs import logger

_ATTEMPTS = 10
_ANSWERS_WITHIN_S = 10.0  # Redis in a task that has just started


class _NodeUnused(Exception):
    """The node is unused and marked as stopping. The message is the reason in the execution's output."""


def nothing_to_load(row: NodeRow) -> None:
    """Load nothing, because each key is seeded when it joins."""


@dataclass(frozen=True, slots=True)
class NodeLife:
    """The lifecycle steps of one node.

    `utilisation` decides whether the running node is used. `load` warms it up before it enters the digest.
    """

    node: str
    runs: NodeRuns
    nodes: NodeTable
    keys: KeyTable
    digest: DigestTable
    executions: Executions
    machines: Machines
    pauses: PauseSwitch
    utilisation: UtilisationCheck
    clock: Clock
    meter: Meter
    store: Callable[[], RedisObjects]  # raises NodeAbsentError
    load: Callable[[NodeRow], None] = nothing_to_load
    hours_per_day: int = DAY_HOURS  # limit of running hours per day
    is_always_on: bool = False  # boots again after every stop
    is_saved: bool = False  # its database is saved before a stop

    @property
    def tasks(self) -> Tasks | None:
        """The node's tasks, or None if it runs on an instance."""
        return self.machines if isinstance(self.machines, Tasks) else None

    def boot(self, generation: int, part: int, token: str, *, execution: str) -> Done:
        """Run BootNode: save the task's token for the instance, and start the instance.

        In a later part of a run the node is already running, so complete the task immediately.

        Raises:
            SupersededError: The run is over, or `execution` is not the execution named in the row.
        """
        row = self._row(generation, part)
        if execution != row.execution_name:
            raise SupersededError(f"execution {execution} was started by hand: {row.execution_name} is the run's own")
        if row.phase == "running":
            self.executions.succeed(token, Done())
        elif (booting := self._expect_boot(row, token)) is None:
            raise ContendedRowTransientError(f"node {self.node} changed before its boot")
        elif booting.task:
            self.attend()  # an earlier attempt of this step has run the task, whose event may have come in between
        else:
            if booting.host:
                self.digest.show_node(booting)  # a former task may still run: from now on no reader asks it
            self._start(booting)
        return Done()

    def _expect_boot(self, row: NodeRow, token: str) -> NodeRow | None:
        """Record the token and the deadline of a boot. Return None if the row has changed."""
        now_us = self.clock.now_us()
        deadline_us = now_us + BOOT_S * US_PER_S
        return self.nodes.change(row, boot_token=token, metered_at_us=now_us, deadline_at_us=deadline_us)

    def _start(self, row: NodeRow, *, ended: str = "") -> None:
        """Start the machine, and record the task that was run, if any. Stop the task if it is not needed any more.

        Raises:
            NodeFailedError: The machine cannot start.
        """
        try:
            started = self.machines.start(row, ended=ended)
        except NodeFailedError as error:
            if self.tasks is not None:
                self.nodes.change(row, notice=str(error))
            raise
        if self.tasks is None or not started or self.nodes.change(row, **started) is not None:
            return
        now = self.nodes.read(self.node)
        is_in_run = now.generation == row.generation and now.phase in ("booting", "running")
        if not (is_in_run and now.task == started["task"]):
            self.tasks.stop_task(started["task"])

    def ready(self, generation: int, part: int) -> NodePlan:
        """Run NodeReady: mark the node running, warm it up, add it to the digest, and complete waiting keys' tasks.

        This order prevents a race with a join. The row says `running` before the leases are read, so a later join sees
        a running node and does not wait. If nobody waits for the node, its first check is due immediately and ends the
        run, because a branch in NodeReady would cost every run a state transition.
        """
        try:
            return self._ready(generation, part)
        except (_NodeUnused, SupersededError):
            now_us = self.clock.now_us()
            return NodePlan(outcome="used", wait_until=iso(now_us), check_at_us=str(now_us), checks=0)

    def _ready(self, generation: int, part: int) -> NodePlan:
        row = self._mark_running(self._row(generation, part))
        self._require_running(row)
        self.load(row)
        self.digest.show_node(row)
        leases = self.nodes.leases(self.node)
        for lease in leases:
            if lease.waiter:
                self.executions.succeed(lease.waiter, NodeReady(generation=generation))
        return self._plan(row, self.utilisation.first_check_us(row, leases, after_us=row.ready_at_us), checks=0)

    def check(self, generation: int, part: int, *, check_at_us: int, checks: int) -> NodePlan | RunEnds:
        """Run CheckNodeUse: release keys that no longer use the node, and plan the next check or end the run.

        Args:
            generation: The run that the check belongs to.
            part: The part of the run.
            check_at_us: The nominal time of the check, for which it decides [us]. The check runs slightly later.
            checks: The number of earlier checks in this part. A long wait counts as several checks.

        Returns:
            The plan of the next check, or the reason why the execution ends: the node is unused and now marked as
            stopping, or the run continues in its next part because this execution's history is full.
        """
        try:
            return self._check(generation, part, check_at_us=check_at_us, checks=checks)
        except _NodeUnused as end:
            return RunEnds(outcome="unsaved" if self.is_saved else "unused", ended=str(end))
        except SupersededError as end:
            return RunEnds(outcome="superseded", ended=str(end))

    def _check(self, generation: int, part: int, *, check_at_us: int, checks: int) -> NodePlan:
        row = self._row(generation, part)
        self._require_running(row)
        leases = self._live_leases()
        try:
            verdict = self.utilisation.check_node(row, leases, check_at_us=check_at_us)
        except RedisDownError as error:
            logger().warning("the node is lost: its Redis does not answer", node=self.node, reason=str(error))
            self._release_lost(row, "its Redis did not answer a check")
            raise _NodeUnused("its Redis did not answer any more") from error
        for lease, queue_us in verdict.released:
            self.executions.succeed(lease.running, RedisOver(outcome="idle", queue_us=list(queue_us)))
            self.nodes.drop(lease)
        return self._plan(row, verdict.check_at_us, checks=checks_after(checks, check_at_us, verdict.check_at_us))

    def save(self, generation: int, token: str) -> Done:
        """Run SaveNode: store the task's token for the instance, which then saves its database.

        Raises:
            SupersededError: The run is over.
        """
        row = self._row(generation)
        deadline_us = self.clock.now_us() + (SAVE_S + STOP_S) * US_PER_S
        if row.phase != "stopping":
            raise SupersededError(f"node {self.node} is {row.phase}: it was stopped by hand")
        if self.tasks is not None and (task := self.tasks.describe(row)) is not None and task.is_ending:
            raise SupersededError(f"the task of {self.node} ends, and saves its database by itself: {task.reason}")
        if self.nodes.change(row, save_token=token, deadline_at_us=deadline_us) is None:
            raise ContendedRowTransientError(f"node {self.node} changed before its database was saved")
        return Done()

    def stop(self, generation: int) -> RunOver:
        """Run StopNode: remove the node from the digest, then stop its instance.

        Redis keeps answering for some seconds, until every reader has the new digest (`template.yaml`, the unit's
        ExecStop).
        """
        row = self._row(generation)
        stopped = NodeStopped(phase=row.phase)
        if row.phase == "stopping":
            if self.is_saved:  # the save had its own deadline
                deadline_us = self.clock.now_us() + STOP_S * US_PER_S
                row = self.nodes.change(row, deadline_at_us=deadline_us) or self._row(generation)
            self.digest.show_node(row)
            stopped = self._switch_off(row)
        ran_s = (self.clock.now_us() - row.booted_at_us) // US_PER_S
        return RunOver(
            **stopped,
            booted_at=iso(row.booted_at_us),
            ran_s=ran_s,
            estimated_usd=round(float(self.meter.prices.node_usd(ran_s * US_PER_S, row.task_kind)), 9),
            estimate_covers=NODE_RUN,
        )

    def abandon(self, generation: int, *, force: bool = False, waits: bool = True) -> NodeStopped:
        """Run AbandonNode: after a failure, fail the waiting keys, release the others, and stop the instance.

        A failed boot starts a cool-down, which bars the next boot. `waits` is as for `_switch_off`.
        """
        row = self._end_run(self._row(generation))
        self.digest.show_node(row)
        self._release_all(NodeFailedError(f"Redis node {self.node} failed in generation {generation}"))
        return self._switch_off(row, force=force, waits=waits)

    def stop_by_hand(self, *, keeps_hold: bool = False) -> NodeStopped:
        """Stop a node and end its execution, for a person or the janitor.

        Force the stop only if the instance hangs while stopping, since a regular stop saves a state database.

        Args:
            keeps_hold: Whether a stopping node that a person holds boots again, as after any other stop.
        """
        row = self.nodes.read(self.node)
        while row.phase == "stopping" and row.held_until_us and not keeps_hold:
            row = self.nodes.change(row, held_until_us=0) or self.nodes.read(self.node)
        if row.phase == "stopped":
            self.machines.stop(row)  # a person may have started it outside Burstcache
            return NodeStopped(phase="stopped")
        self.executions.stop(self.runs.machine_arn, row.execution_name, cause="the node is stopped by hand")
        hangs = row.is_late_to_stop(self.clock.now_us()) and self.machines.state(row) == "stopping"
        try:
            return self.abandon(row.generation, force=hangs)
        except SupersededError:  # the node has booted again meanwhile
            if keeps_hold:
                raise
            return self.stop_by_hand()

    def lose(self, seen: NodeRow) -> NodeRow:
        """Remove a node from the digest because it did not drop a copy, then stop it, and return its row.

        The caller depends only on the removal. If the stop fails, the janitor stops the node. A run that is already
        over has left no copies in Redis.
        """
        row, is_marked = self.nodes.read(self.node), False
        while row.generation == seen.generation and row.phase == "running":
            marked = self._mark_stopping(row, lost="its Redis did not answer a write")
            row, is_marked = marked or self.nodes.read(self.node), marked is not None
        if row.generation == seen.generation:
            self.digest.show_node(row)
        if is_marked:
            logger().warning("a node did not drop a copy, so it stops", node=self.node)
            try:
                self.executions.stop(self.runs.machine_arn, row.execution_name, cause="Redis does not answer a write")
                self.abandon(row.generation, waits=False)  # the caller waits until no reader asks the node
            except BurstcacheError:
                logger().exception("the node is left to the janitor", node=self.node)
        return row

    def instance_stopped(self) -> NodeStopped:
        """Handle EC2's event that the instance has stopped. Delivery is at-least-once and may be late.

        A stopping node is now stopped. A booting node is started again, because its instance was still stopping at the
        first attempt, or was in its first boot, which ends in a shutdown. A running node is lost. For a task, the
        janitor requests this after a lost event.

        Raises:
            NodeFailedError: The instance of an always-on node no longer exists. Its keys are released.
        """
        row = self.nodes.read(self.node)
        if (row.phase == "stopped" and not self.is_always_on) or not self.machines.has_stopped(row):
            return NodeStopped(phase=row.phase)
        task = None if self.tasks is None else self.tasks.describe(row)
        if task is not None and row.phase in ("booting", "running"):
            return self.follow_task(task)
        if self._waits(row):
            self._start(row)
            return NodeStopped(phase="booting", generation=row.generation)
        if row.phase == "booting":
            return self._boot_again(row, None)
        if row.phase == "running":
            row = self._release_lost(row, "its machine stopped")
        return self._stopped(row)

    def follow_task(self, task: TaskState) -> NodeStopped:
        """Handle ECS's event about a task of this node. Delivery is at-least-once, late, and in any order.

        A running task completes the boot once its Redis answers. A task that ends before its node stops is lost at the
        first notice, up to two minutes before its end. During a boot another one replaces it if AWS took its capacity
        back. Otherwise the boot fails.

        Raises:
            RedisDownError: The task runs, but its Redis does not answer. The event is delivered again.
        """
        try:
            return self._follow_task(self.nodes.read(self.node), task)
        except SupersededError:  # another step has ended the run meanwhile
            return NodeStopped(phase=self.nodes.read(self.node).phase)

    def _follow_task(self, row: NodeRow, task: TaskState) -> NodeStopped:
        is_of_run = row.generation == task.generation and row.task in ("", task.task)
        if is_of_run and task.is_ending:
            if row.phase == "running":
                return self._lose_task(row, task)
            if row.phase == "booting":
                return self._boot_again(row, task)
            if row.phase == "stopping" and task.is_over:
                return self._stopped(row)
        elif is_of_run and task.is_running and row.phase == "booting" and task.host:
            return self._complete_boot(row, task)
        elif task.is_over and self._waits(row):
            self._start(row)
        return NodeStopped(phase=row.phase)

    def _waits(self, row: NodeRow) -> bool:
        """Return whether a database's boot has no task yet, because another run's task had to end first."""
        return self.tasks is not None and self.tasks.place.has_state and row.phase == "booting" and not row.task

    def attend(self) -> NodeStopped:
        """Handle the present state of the node's task as its event, which may be lost. Then reset its dead-man switch.

        A task ends itself half an hour after the last message from the control plane. A database's task reads the row.
        """
        row = self.nodes.read(self.node)
        if self.tasks is None or row.phase not in ("booting", "running"):
            return NodeStopped(phase=row.phase)
        task = self.tasks.describe(row)
        try:
            if task is not None and (task.is_ending or row.phase == "booting"):
                return self.follow_task(task)
            if self._waits(row):
                self._start(row)
            elif row.phase == "running" and not self.tasks.place.has_state:
                self.store().attend()
        except RedisDownError as error:  # a check ends the run, or the time-out of BootNode
            logger().warning("a task is not attended", node=self.node, reason=str(error))
        return NodeStopped(phase=row.phase)

    def _complete_boot(self, row: NodeRow, task: TaskState) -> NodeStopped:
        """Record the address of a running task, and complete the token of BootNode when its Redis answers.

        A database's task completes the token itself, once the address is recorded.
        """
        booting = self.nodes.change(row, task=task.task, task_kind=task.kind, host=task.host)
        if booting is None:
            return NodeStopped(phase=self._row(row.generation).phase)
        if self.tasks is not None and self.tasks.place.has_state:
            return NodeStopped(phase="booting", generation=row.generation)
        store = self.store()
        if not retry_until_answered(store.ping, RedisDownError, self.clock, for_s=_ANSWERS_WITHIN_S):
            raise RedisDownError(f"{self.node} at {task.host}: the task runs, but its Redis does not answer")
        self.executions.succeed(booting.boot_token, Done())
        return NodeStopped(phase="booting", generation=row.generation)

    def _boot_again(self, row: NodeRow, task: TaskState | None) -> NodeStopped:
        """Start a booting node's instance again, or replace its interrupted task. Otherwise fail the boot."""
        if self.tasks is None:
            self._start(row)
            return NodeStopped(phase="booting", generation=row.generation)
        if task is not None and not (task.is_over or row.host or self.tasks.is_off_at_once):
            return NodeStopped(phase="booting", generation=row.generation)  # another event follows its end
        reason = "ECS does not know its task" if task is None else task.reason
        failure = NodeFailedError(f"the task of {self.node} has ended: {reason}")
        if task is not None and task.is_interrupted and not row.host:
            logger().warning("a task was interrupted during its boot", node=self.node, reason=reason)
            try:
                self._start(row if row.task else self._known(row, task), ended=task.task)
            except NodeFailedError as error:
                failure = error
            else:
                return NodeStopped(phase="booting", generation=row.generation)
        self.nodes.change(row, notice=str(failure))
        if not self.executions.fail(row.boot_token, failure) and row.host and task is not None:
            return self._lose_task(row, task)  # the boot is complete, and NodeReady at work
        return NodeStopped(phase="booting", generation=row.generation)

    def _known(self, row: NodeRow, task: TaskState) -> NodeRow:
        """Record a task whose event came before its row was written. A repeated event then finds it replaced."""
        return self.nodes.change(row, task=task.task, task_kind=task.kind) or self._row(row.generation)

    def _lose_task(self, row: NodeRow, task: TaskState) -> NodeStopped:
        """Release a running node whose task ends. Its next run is on another task, so it may boot at once.

        Until its end the task goes on answering readers with an older digest, so writes have to reach it for that long.
        A database boots again only after the task's end, since the task saves it.
        """
        logger().warning("the node is lost: its task ends", node=self.node, reason=task.reason)
        row = self._release_lost(row, f"its task ended: {task.reason}")
        row = self.nodes.change(row, notice=task.reason) or self._row(row.generation)
        if self.machines.is_off_at_once and not task.is_over:
            self.clock.sleep(FORGOTTEN_S)
        return self._stopped(row) if self.machines.stop(row) or task.is_over else NodeStopped(phase="stopping")

    def _stopped(self, row: NodeRow) -> NodeStopped:
        """Mark a node without a machine as stopped, or boot it again if it is needed or always on.

        Raises:
            NodeFailedError: The instance of an always-on node no longer exists. Its keys are released.
        """
        has_failed = row.phase == "stopping" and self.clock.now_us() < row.not_before_us  # the janitor tries again
        if not self.is_always_on or has_failed or self.pauses.read():
            return self._stopped_or_boot(row)
        try:
            self.machines.ensure_exists(row)
        except NodeFailedError:
            self._stopped_or_boot(row)
            raise
        return self._stopped_or_boot(row, boots=True)

    def _row(self, generation: int, part: int = 0) -> NodeRow:
        """Return the row of a run and part, or raise SupersededError if either is over."""
        row = self.nodes.read(self.node)
        if row.generation != generation:
            raise SupersededError(f"node {self.node}: generation {generation} is over, it is in {row.generation}")
        if part and row.part != part:
            self.runs.start(row)  # the step that planned the next part may have died before starting it
            raise SupersededError(f"node {self.node}: part {part} of {generation} is over, it is in {row.part}")
        return row

    def _require_running(self, row: NodeRow) -> None:
        if row.phase != "running":
            raise _NodeUnused("nobody used it any more")

    def _mark_running(self, row: NodeRow) -> NodeRow:
        """Mark a booted node as running unless it is stopping or unused, and return its row."""
        while row.phase == "booting":
            now_us = self.clock.now_us()
            if self.utilisation.first_check_us(row, self._live_leases(), after_us=now_us) is None:
                row = self._stop_unless_joined(row)
            else:
                deadline_us = now_us + CHECK_LATENESS_US
                marked = self.nodes.change(
                    row, phase="running", ready_at_us=now_us, deadline_at_us=deadline_us, failures=0, not_before_us=0
                )
                row = marked or self._row(row.generation)  # this step ran twice, and the other attempt was faster
        return row

    def _live_leases(self) -> list[Lease]:
        """Return the live leases, and drop leases with a dead execution and those of holders that have expired.

        A lease that has changed since the read may be live again, so read all leases again.
        """
        for attempt in itertools.count():
            leases = self.nodes.leases(self.node)
            rows = self.keys.read_many(lease.hash for lease in leases if lease.key)
            now_us = self.clock.now_us()
            live = [lease for lease in leases if _is_live(lease, rows.get(lease.hash), now_us)]
            if all(self.nodes.drop(lease, is_over=True) for lease in leases if lease not in live):
                break
            back_off(self.clock, attempt)
        return live

    def _plan(self, row: NodeRow, check_at_us: int | None, *, checks: int) -> NodePlan:
        """Return the plan of the next check, or mark an unused node as stopping."""
        while check_at_us is None:
            row = self._stop_unless_joined(row)
            self._require_running(row)
            check_at_us = self.utilisation.first_check_us(row, self._live_leases(), after_us=self.clock.now_us())
        check = plan_check(check_at_us, checks=checks)
        # The row names the successor before its start, so either the row's part or the previous part is always running.
        part, now_us = row.part + check.is_in_successor, self.clock.now_us()
        planned = self.nodes.change(row, part=part, deadline_at_us=check.deadline_us, metered_at_us=now_us)
        if planned is not None:
            self.meter.node_ran(row.metered_at_us, now_us, row.task_kind)
        if planned is not None and check.is_in_successor:
            self.runs.start(planned)
            raise SupersededError(
                f"node {self.node}: part {row.part} of {row.generation} goes on in part {planned.part}"
            )
        return NodePlan(
            outcome="used",
            wait_until=iso(check.wait_until_s * US_PER_S),
            check_at_us=str(check.check_at_us),  # as text, because JSONata writes only 15 digits of a number
            checks=checks,
        )

    def _stop_unless_joined(self, row: NodeRow) -> NodeRow:
        """Mark an unused node as stopping, or return its new row if a key has joined since `row` was read.

        Raises:
            _NodeUnused: The node is now marked as stopping.
        """
        if self._mark_stopping(row, no_join_since=True) is not None:
            raise _NodeUnused("nobody used it any more")
        return self._row(row.generation)

    def _end_run(self, row: NodeRow, *, lost: str = "") -> NodeRow:
        """Mark a booting or running node as stopping, whatever step of its run changes the row meanwhile."""
        while row.phase in ("booting", "running"):
            row = self._mark_stopping(row, bars=row.phase == "booting", lost=lost) or self._row(row.generation)
        return row

    def _mark_stopping(
        self, row: NodeRow, *, no_join_since: bool = False, bars: bool = False, lost: str = ""
    ) -> NodeRow | None:
        now_us = self.clock.now_us()
        used_us = row.used_today_us(now_us)
        changes = NodeColumns(
            phase="stopping",
            deadline_at_us=now_us + STOP_S * US_PER_S,
            day=day_of(now_us),
            day_used_us=used_us,
            held_until_us=0,  # a later hold boots the node again
        )
        if used_us >= self.hours_per_day * HOUR_US:
            changes["not_before_us"] = next_day_us(now_us)
        if lost:
            changes |= NodeColumns(lost_at_us=now_us, lost_by=lost)
        if bars:
            changes["failures"] = row.failures + 1
            changes["not_before_us"] = max(now_us + cool_down_us(row.failures), changes.get("not_before_us", 0))
        stopping = self.nodes.change(row, no_join_since=no_join_since, **changes)
        if stopping is not None:
            self.meter.node_ran(row.metered_at_us, now_us, row.task_kind)
        return stopping

    def _release_lost(self, row: NodeRow, lost: str) -> NodeRow:
        """Release all keys of a node that died. `lost` says how, for the dashboard.

        Routes to the node are invalid once its row no longer says `running` (`docs/understand/lifecycle.md`, rule 4).
        """
        row = self._end_run(row, lost=lost)
        self.digest.show_node(row)
        self._release_all(NodeFailedError(f"Redis on {self.node} does not answer any more"))
        return row

    def _release_all(self, error: NodeFailedError) -> None:
        for lease in self.nodes.leases(self.node):
            if lease.waiter:
                self.executions.fail(lease.waiter, error)
            if lease.running:
                self.executions.succeed(lease.running, RedisOver(outcome="node_lost"))
            self.nodes.drop(lease, is_over=True)

    def _switch_off(self, row: NodeRow, *, force: bool = False, waits: bool = True) -> NodeStopped:
        """Stop the machine. If it is off already, no event follows, so complete the stop here.

        The next run of a task is another task. So this waits until no reader asks the present one, because writes reach
        it only while the row says `stopping`. Without `waits`, ECS's event about the task's end completes the stop.
        """
        has_readers = self.machines.is_off_at_once and row.ready_at_us >= row.booted_at_us
        if has_readers and waits:
            self.clock.sleep(FORGOTTEN_S)
        if self.machines.stop(row, force=force) and (waits or not has_readers):
            return self._stopped_or_boot(row)
        return NodeStopped(phase="stopping")

    def _stopped_or_boot(self, row: NodeRow, *, boots: bool = False) -> NodeStopped:
        """Mark the node as stopped, or boot its next generation if `boots` is set or a lease or hold came meanwhile.

        After a failed boot, an always-on node does not boot here, since the janitor retries later. Leases taken during
        a cool-down fail, unless a person holds the node, because a cool-down does not bar a hold.
        """
        for attempt in range(_ATTEMPTS):
            if row.phase == "stopped" and not boots:
                return NodeStopped(phase="stopped")
            leases = self._live_leases()
            is_wanted = boots or row.is_held(self.clock.now_us())
            if not is_wanted and self.clock.now_us() < row.not_before_us:
                self._release_all(NodeFailedError(f"node {self.node} {row.bar}"))
                leases = self._live_leases()
            if is_wanted or leases:
                if (booting := self.runs.boot(row)) is not None:
                    return NodeStopped(phase="booting", generation=booting.generation)
            elif self.nodes.change(row, no_join_since=True, phase="stopped", deadline_at_us=0) is not None:
                return NodeStopped(phase="stopped")
            back_off(self.clock, attempt)
            row = self._row(row.generation)
        raise ContendedRowTransientError(f"node {self.node}: keys came and went at every attempt to mark it stopped")


def _is_live(lease: Lease, row: KeyRow | None, now_us: int) -> bool:
    """Return whether a lease still needs its node, for a live execution of its key or for its holder."""
    if lease.key:
        return row is not None and row.epoch == lease.epoch and row.is_live(now_us)
    return lease.held_until_us > now_us
