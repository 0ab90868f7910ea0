"""The life of a Redis node, step by step as `redis_node.asl.json` walks it. Every step may run twice.

No step waits for a boot or a stop. The instance itself completes the task of `BootNode` when its Redis answers, and
EC2's event that it has stopped ends the stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.control.meter import Meter
from burstcache.control.node_judge import NodeJudge
from burstcache.control.node_runs import NodeRuns
from burstcache.core.deadlines import BOOT_S, SAVE_S, STOP_S
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


class _NodeUnused(Exception):
    """Nobody uses the node any more, which is marked as stopping; the message says why, for the execution's output."""


def nothing_to_load(row: NodeRow) -> None:
    """Load nothing: keys are seeded one by one when they join."""


@dataclass(frozen=True, slots=True)
class NodeLife:
    """What Redis control does for one node.

    `judge` decides who uses the running node. `load` fills it once its Redis answers, before readers are shown it.
    """

    node: str
    runs: NodeRuns
    nodes: NodeTable
    keys: KeyTable
    digest: DigestTable
    executions: Executions
    instances: Instances
    pauses: Pauses
    judge: NodeJudge
    clock: Clock
    meter: Meter
    load: Callable[[NodeRow], None] = nothing_to_load
    hours_per_day: int = DAY_HOURS  # for which it may run on one day
    is_always_on: bool = False  # boots again whenever it has stopped
    is_saved: bool = False  # holds a database that is saved before it stops

    def boot(self, generation: int, part: int, token: str, *, execution: str) -> Done:
        """BootNode: hand the task's token to the instance and start it.

        A later part of a run that has long begun goes on at once.

        Raises:
            SupersededError: The run is over, or `execution` is a copy of the one that the row names.
        """
        row = self._row(generation, part)
        if execution != row.execution_name:
            raise SupersededError(f"execution {execution} was started by hand: {row.execution_name} is the run's own")
        if row.phase == "running":
            self.executions.succeed(token, Done())
        elif not self._expects(row, token):
            raise ContendedRowTransientError(f"node {self.node} changed while it was to boot")
        else:
            self.instances.start(self.node)
        return Done()

    def _expects(self, row: NodeRow, token: str) -> bool:
        """Write down who completes the boot, until when it may take; False if the row has changed."""
        now_us = self.clock.now_us()
        deadline_us = now_us + BOOT_S * US_PER_S
        expecting = self.nodes.change(row, boot_token=token, metered_at_us=now_us, deadline_at_us=deadline_us)
        return expecting is not None

    def ready(self, generation: int, part: int) -> NodePlan:
        """NodeReady: mark the node running, fill it, show it to readers, complete the tasks of the waiting keys.

        The order closes the race with a join: first the row says `running`, then the leases are read; a later join
        sees `running` and does not wait. A node that nobody waits for any more is checked at once, which ends its run:
        a branch here would cost every run a transition.
        """
        try:
            return self._ready(generation, part)
        except (_NodeUnused, SupersededError):
            now_us = self.clock.now_us()
            return NodePlan(outcome="used", wait_until=iso(now_us), check_at_us=str(now_us), checks=0)

    def _ready(self, generation: int, part: int) -> NodePlan:
        row = self._mark_running(self._row(generation, part))
        self._see_that_it_runs(row)
        self.load(row)
        self.digest.show_node(row)
        leases = self.nodes.leases(self.node)
        for lease in leases:
            if lease.waiter:
                self.executions.succeed(lease.waiter, NodeReady(generation=generation))
        return self._plan(row, self.judge.first_look_us(row, leases, after_us=row.ready_at_us), checks=0)

    def check(self, generation: int, part: int, *, check_at_us: int, checks: int) -> NodePlan | RunEnds:
        """CheckNodeUse: give back the keys that the judge releases, and plan the next check or end the run.

        Args:
            generation: The run that the check belongs to.
            part: The part of the run.
            check_at_us: The check's nominal instant, which decides; it runs a little later [us].
            checks: How many checks this part has made before, or has had the time of.

        Returns:
            The next check; or why the run ends here: nobody uses the node, which is marked as stopping, or the run goes
            on in its next part, since this one's history is full.
        """
        try:
            return self._check(generation, part, check_at_us=check_at_us, checks=checks)
        except _NodeUnused as end:
            return RunEnds(outcome="unsaved" if self.is_saved else "unused", ended=str(end))
        except SupersededError as end:
            return RunEnds(outcome="superseded", ended=str(end))

    def _check(self, generation: int, part: int, *, check_at_us: int, checks: int) -> NodePlan:
        row = self._row(generation, part)
        self._see_that_it_runs(row)
        leases = self._live_leases()
        try:
            verdict = self.judge.look(row, leases, look_at_us=check_at_us)
        except RedisDownError as error:
            logger().warning("the node is lost: its Redis does not answer", node=self.node, reason=str(error))
            self._lose(row)
            raise _NodeUnused("its Redis did not answer any more") from error
        for lease, queue_us in verdict.released:
            self.executions.succeed(lease.running, RedisOver(outcome="idle", queue_us=list(queue_us)))
            self.nodes.drop(lease)
        return self._plan(row, verdict.look_at_us, checks=checks_after(checks, check_at_us, verdict.look_at_us))

    def save(self, generation: int, token: str) -> Done:
        """SaveNode: hand the task's token to the instance, which saves its database.

        Raises:
            SupersededError: The run is over.
        """
        row = self._row(generation)
        deadline_us = self.clock.now_us() + (SAVE_S + STOP_S) * US_PER_S
        if row.phase != "stopping":
            raise SupersededError(f"node {self.node} is {row.phase}: it was stopped by hand")
        if self.nodes.change(row, save_token=token, deadline_at_us=deadline_us) is None:
            raise ContendedRowTransientError(f"node {self.node} changed while it was to be saved")
        return Done()

    def stop(self, generation: int) -> RunOver:
        """StopNode: take the node off the digest, then have its instance stop.

        Its Redis answers for some seconds more, until every reader knows (`template.yaml`, the unit's ExecStop).
        """
        row = self._row(generation)
        stopped = NodeStopped(phase=row.phase)
        if row.phase == "stopping":
            if self.is_saved:  # saving it took its own time
                deadline_us = self.clock.now_us() + STOP_S * US_PER_S
                row = self.nodes.change(row, deadline_at_us=deadline_us) or self._row(generation)
            self.digest.show_node(row)
            stopped = self._switch_off(row)
        ran_s = (self.clock.now_us() - row.booted_at_us) // US_PER_S
        return RunOver(
            **stopped,
            booted_at=iso(row.booted_at_us),
            ran_s=ran_s,
            estimated_usd=round(float(self.meter.prices.node_usd(ran_s * US_PER_S)), 9),
            estimate_covers=NODE_RUN,
        )

    def abandon(self, generation: int, *, force: bool = False) -> NodeStopped:
        """AbandonNode: after a failure, fail the waiting keys, unroute the others, have the instance stop.

        A boot that failed bars the next one for a cool-down.
        """
        row = self._row(generation)
        if row.phase in ("booting", "running"):
            row = self._mark_stopping(row, bars=row.phase == "booting") or self._row(generation)
        self.digest.show_node(row)
        self._release_all(NodeFailedError(f"Redis node {self.node} failed in generation {generation}"))
        return self._switch_off(row, force=force)

    def stop_by_hand(self) -> NodeStopped:
        """Stop a node and end its execution, for a person or the janitor; one that hangs as it stops is forced to.

        No other: a database of state is saved as its instance stops.
        """
        row = self.nodes.read(self.node)
        if row.phase == "stopped":
            self.instances.stop(self.node)  # a person may have started it elsewhere
            return NodeStopped(phase="stopped")
        self.executions.stop(self.runs.machine_arn, row.execution_name, cause="the node is stopped by hand")
        hangs = row.is_late_to_stop(self.clock.now_us()) and self.instances.state(self.node) == "stopping"
        return self.abandon(row.generation, force=hangs)

    def lose(self, seen: NodeRow) -> NodeRow:
        """Take a node off the digest that did not let a copy go, then have it stop; return its row.

        Only the first is necessary for what asks: what fails of the rest the janitor does. A run that is over has left
        nothing in Redis.
        """
        row, is_marked = self.nodes.read(self.node), False
        while row.generation == seen.generation and row.phase == "running":
            marked = self._mark_stopping(row)
            row, is_marked = marked or self.nodes.read(self.node), marked is not None
        if row.generation == seen.generation:
            self.digest.show_node(row)
        if is_marked:
            logger().warning("a node does not let a copy go, so it stops", node=self.node)
            try:
                self.executions.stop(self.runs.machine_arn, row.execution_name, cause="Redis does not answer a write")
                self.abandon(row.generation)
            except BurstcacheError:
                logger().exception("the node is left to the janitor", node=self.node)
        return row

    def instance_stopped(self) -> NodeStopped:
        """Follow EC2's event that the instance has stopped, which may come late or twice.

        A stop ends. A boot begins anew: the instance was still stopping when it was to start, or in its first boot,
        which ends in a shutdown. A node that was running is lost.

        Raises:
            NodeFailedError: A node that never stops has lost its instance for good; its keys are given back.
        """
        row = self.nodes.read(self.node)
        if (row.phase == "stopped" and not self.is_always_on) or not self.instances.has_stopped(self.node):
            return NodeStopped(phase=row.phase)
        if row.phase == "booting":
            self.instances.start(self.node)
            return NodeStopped(phase="booting", generation=row.generation)
        if row.phase == "running":
            row = self._lose(row)
        has_failed = row.phase == "stopping" and self.clock.now_us() < row.not_before_us  # the janitor tries again
        if not self.is_always_on or has_failed or self.pauses.read():
            return self._stopped_or_boot(row)
        try:
            self.instances.see_that_it_exists(self.node)
        except NodeFailedError:
            self._stopped_or_boot(row)
            raise
        return self._stopped_or_boot(row, boots=True)

    def _row(self, generation: int, part: int = 0) -> NodeRow:
        """Return the row of a run, and of one of its parts; raise SupersededError if it is over."""
        row = self.nodes.read(self.node)
        if row.generation != generation:
            raise SupersededError(f"node {self.node}: generation {generation} is over, it is in {row.generation}")
        if part and row.part != part:
            self.runs.start(row)  # the step that handed over may have died before it did this
            raise SupersededError(f"node {self.node}: part {part} of {generation} is over, it is in {row.part}")
        return row

    def _see_that_it_runs(self, row: NodeRow) -> None:
        if row.phase != "running":
            raise _NodeUnused("nobody used it any more")

    def _mark_running(self, row: NodeRow) -> NodeRow:
        """Return the row of a node that has booted: running, unless somebody stops it or nobody waits for it."""
        while row.phase == "booting":
            now_us = self.clock.now_us()
            if self.judge.first_look_us(row, self._live_leases(), after_us=now_us) is None:
                row = self._stop_unless_joined(row)
            else:
                deadline_us = now_us + CHECK_LATENESS_US
                marked = self.nodes.change(
                    row, phase="running", ready_at_us=now_us, deadline_at_us=deadline_us, failures=0, not_before_us=0
                )
                row = marked or self._row(row.generation)  # a repeat of this step was faster
        return row

    def _live_leases(self) -> list[Lease]:
        """Return the leases that still need the node; drop those whose execution died or whose hold ran out.

        One that has changed since it was read may be live again, so all are read anew.
        """
        while True:
            leases = self.nodes.leases(self.node)
            rows = self.keys.read_many(lease.hash for lease in leases if lease.key)
            now_us = self.clock.now_us()
            live = [lease for lease in leases if _is_live(lease, rows.get(lease.hash), now_us)]
            if all(self.nodes.drop(lease, is_over=True) for lease in leases if lease not in live):
                return live

    def _plan(self, row: NodeRow, look_at_us: int | None, *, checks: int) -> NodePlan:
        """Return when the node is looked at next; a node that nobody uses is marked as stopping."""
        while look_at_us is None:
            row = self._stop_unless_joined(row)
            self._see_that_it_runs(row)
            look_at_us = self.judge.first_look_us(row, self._live_leases(), after_us=self.clock.now_us())
        check = plan_check(look_at_us, checks=checks)
        # The row names the successor before it starts: at any time the part in the row or the one before it is running.
        part, now_us = row.part + check.is_in_successor, self.clock.now_us()
        planned = self.nodes.change(row, part=part, deadline_at_us=check.deadline_us, metered_at_us=now_us)
        if planned is not None:
            self.meter.node_ran(row.metered_at_us, now_us)
        if planned is not None and check.is_in_successor:
            self.runs.start(planned)
            raise SupersededError(
                f"node {self.node}: part {row.part} of {row.generation} goes on in part {planned.part}"
            )
        return NodePlan(
            outcome="used",
            wait_until=iso(check.wait_until_s * US_PER_S),
            check_at_us=str(check.check_at_us),  # as text: JSONata writes only 15 digits of a number
            checks=checks,
        )

    def _stop_unless_joined(self, row: NodeRow) -> NodeRow:
        """Mark an unused node as stopping, or return its row if a key has joined since the given one was read.

        Raises:
            _NodeUnused: It is marked.
        """
        if self._mark_stopping(row, no_join_since=True) is not None:
            raise _NodeUnused("nobody used it any more")
        return self._row(row.generation)

    def _mark_stopping(self, row: NodeRow, *, no_join_since: bool = False, bars: bool = False) -> NodeRow | None:
        now_us = self.clock.now_us()
        used_us = row.used_today_us(now_us)
        changes = NodeColumns(
            phase="stopping", deadline_at_us=now_us + STOP_S * US_PER_S, day=day_of(now_us), day_used_us=used_us
        )
        if used_us >= self.hours_per_day * HOUR_US:
            changes["not_before_us"] = next_day_us(now_us)
        if bars:
            changes["failures"] = row.failures + 1
            changes["not_before_us"] = max(now_us + cool_down_us(row.failures), changes.get("not_before_us", 0))
        stopping = self.nodes.change(row, no_join_since=no_join_since, **changes)
        if stopping is not None:
            self.meter.node_ran(row.metered_at_us, now_us)
        return stopping

    def _lose(self, row: NodeRow) -> NodeRow:
        """Give all keys back: the node died.

        Its keys are unrouted once its row stops saying `running` (`docs/understand/lifecycle.md`, rule 4).
        """
        row = self._mark_stopping(row) or self._row(row.generation)
        self.digest.show_node(row)
        self._release_all(NodeFailedError(f"Redis on {self.node} does not answer any more"))
        return row

    def _release_all(self, error: NodeFailedError) -> None:
        for lease in self.nodes.leases(self.node):
            if lease.waiter:
                self.executions.fail(lease.waiter, error)
            if lease.running:
                self.executions.succeed(lease.running, RedisOver(outcome="node_lost"))
            self.nodes.drop(lease)

    def _switch_off(self, row: NodeRow, *, force: bool = False) -> NodeStopped:
        """Have the instance stop; if it had stopped before, EC2 has nothing to tell, and the stop ends here."""
        if self.instances.stop(self.node, force=force):
            return self._stopped_or_boot(row)
        return NodeStopped(phase="stopping")

    def _stopped_or_boot(self, row: NodeRow, *, boots: bool = False) -> NodeStopped:
        """Mark the node stopped if no lease has come meanwhile, else start its next generation, as always if it boots.

        After a failed boot an always-on node does not: the janitor tries again later. Leases that have come while a
        node cools down are given up, unless a person's hold is among them, which no cool-down bars.
        """
        for _ in range(_ATTEMPTS):
            if row.phase == "stopped" and not boots:
                return NodeStopped(phase="stopped")
            leases = self._live_leases()
            is_wanted = boots or any(lease.is_by_hand for lease in leases)
            if not is_wanted and self.clock.now_us() < row.not_before_us:
                self._release_all(NodeFailedError(f"node {self.node} {row.bar}"))
                leases = self._live_leases()
            if is_wanted or leases:
                if (booting := self.runs.boot(row)) is not None:
                    return NodeStopped(phase="booting", generation=booting.generation)
            elif self.nodes.change(row, no_join_since=True, phase="stopped", deadline_at_us=0) is not None:
                return NodeStopped(phase="stopped")
            row = self._row(row.generation)
        raise ContendedRowTransientError(f"node {self.node}: keys came and went at every attempt to mark it stopped")


def _is_live(lease: Lease, row: KeyRow | None, now_us: int) -> bool:
    """Whether a lease still needs its node: its key's execution lives, or its hold has not run out."""
    if lease.key:
        return row is not None and row.epoch == lease.epoch and row.is_live(now_us)
    return lease.held_until_us > now_us
