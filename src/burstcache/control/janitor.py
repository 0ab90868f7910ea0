"""The janitor, which cleans up keys and nodes without an owner (`docs/understand/lifecycle.md`, "The janitor").

It checks a row twice, 5 s apart, since a row is written a moment before its execution starts. It cleans up each key and
node separately, so one failure does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.machines import NodeMachines
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.tasks import Tasks
from burstcache.core.digest import RoutedKey, RunningNode
from burstcache.core.errors import CleaningFailedError
from burstcache.core.keys import node_execution_name
from burstcache.core.messages.operations import AttendNode, InstanceStopped, Leave, Operation, Release
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASE_RANK
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.logs import logger
from burstcache.metrics import OVERDUE_NODES, put

_CHECK_AGAIN_S = 5
# An instance that runs while its row says `stopped` may be in its first boot, which installs Redis and shuts down.
_FIRST_BOOT_US = 600 * US_PER_S


class Cleaned(TypedDict):
    """The result of a run: keys returned to S3, nodes stopped or found off, and nodes stopped because of a pause."""

    keys: list[str]
    nodes: list[str]
    paused: list[str]


@dataclass(slots=True)
class _Failures:
    """The failures of a run, by the name of the key or node."""

    reasons: dict[str, Exception] = field(default_factory=dict)

    @contextmanager
    def recorded(self, name: str) -> Iterator[None]:
        """Record a failure instead of raising it, so that the run continues."""
        try:
            yield
        except Exception as error:
            logger().exception("not cleaned", item=name)
            self.reasons.setdefault(name, error)

    def raise_if_any(self) -> None:
        """Raise CleaningFailedError if there are failures."""
        if self.reasons:
            listed = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in self.reasons.items())
            raise CleaningFailedError(f"could not clean {listed}")


@dataclass(frozen=True, slots=True)
class Janitor:
    """A janitor that compares rows, executions, instances and tasks."""

    keys: KeyTable
    digest: DigestTable
    nodes: NodeTable
    executions: Executions
    machines: NodeMachines
    pauses: PauseSwitch
    key_lifecycle_arn: str
    redis_node_arn: str
    node_names: Sequence[str]
    always_on: Sequence[str]  # nodes that never stop
    redis_control: Callable[[Operation], object]
    clock: Clock

    def clean(self) -> Cleaned:
        """Move unowned keys back to S3, stop unowned nodes, and return the names of both.

        Raises:
            CleaningFailedError: Some keys or nodes could not be cleaned up. All others have been cleaned up.
        """
        failures = _Failures()
        keys = self._unowned_keys(failures)
        nodes = self._unowned_nodes(self.node_names, failures)
        if keys or nodes:
            self.clock.sleep(_CHECK_AGAIN_S)
        cleaned = Cleaned(
            keys=self._return_keys(keys, failures),
            nodes=self._release_nodes(nodes, failures),
            paused=self._stop_paused_nodes(failures),
        )
        with failures.recorded("the digest"):
            self._correct_digest()
        failures.raise_if_any()
        return cleaned

    def _correct_digest(self) -> None:
        """Add missing keys and nodes to the digest, and remove keys that no tier serves.

        Read the digest before the rows. A row that differs is then newer, or its last change never reached the digest.
        """
        digest = self.digest.read()
        rows = self.keys.read_many(self.keys.started() | digest.routes.keys())
        for row in rows.values():
            if row.tier and _differs(row, digest.routes.get(row.hash)):
                self.digest.show_key(row)
        for hash_, shown in digest.routes.items():
            if hash_ not in rows or not rows[hash_].tier:
                self.digest.remove_key(hash_, shown)
        for node in map(self.nodes.read, self.node_names):
            if _shows_wrong_run(node, digest.nodes.get(node.node)):
                self.digest.show_node(node)

    def _unowned_keys(self, failures: _Failures) -> list[KeyRow]:
        """Return the keys whose life has no owner.

        A full set of started keys evicts keys past their deadline (`adapters/hot_keys.py`). If such a key still has a
        route, the digest lists it.
        """
        unowned = []
        with failures.recorded("the started keys"):
            hashes = self.keys.started() | self.digest.read().routes.keys()
            rows = [row for row in self.keys.read_many(hashes).values() if row.phase != "s3"]
            running = self.executions.running(self.key_lifecycle_arn) if rows else frozenset[str]()
            for row in rows:
                with failures.recorded(f"key {row.key!r}"):
                    if not self._is_owned(row, running):
                        unowned.append(row)
        return unowned

    def _unowned_nodes(self, names: Iterable[str], failures: _Failures) -> list[NodeRow]:
        """Return the nodes without an owner. Renew `attended_at_us` of the others, so that their instances stay on.

        A task cannot read the row, so Redis control attends to it. That also makes up for a lost event of ECS.
        """
        unowned = []
        for name in names:
            with failures.recorded(name):
                row = self.nodes.read(name)
                if not self._is_node_owned(row):
                    unowned.append(row)
                elif row.phase in ("booting", "running"):
                    self.nodes.change(row, attended_at_us=self.clock.now_us())
                    if isinstance(self.machines(name), Tasks):
                        self.redis_control(AttendNode(op="attend_node", node=name))
        return unowned

    def _return_keys(self, suspects: Sequence[KeyRow], failures: _Failures) -> list[str]:
        """Return suspects to S3 if they are still in the same life and still have no owner."""
        returned = []
        for suspect in suspects:
            with failures.recorded(f"key {suspect.key!r}"):
                row = self.keys.read(suspect.hash)
                if row is not None and row.phase != "s3" and row.epoch == suspect.epoch and not self._is_owned(row):
                    self._return_to_s3(row)
                    returned.append(row.key)
        return returned

    def _release_nodes(self, suspects: Sequence[NodeRow], failures: _Failures) -> list[str]:
        """Stop suspects if they are still in the same run and still have no owner."""
        generations = {row.node: row.generation for row in suspects}
        released = []
        for row in self._unowned_nodes(generations, failures):
            with failures.recorded(row.node):
                if row.generation == generations[row.node]:
                    self._release(row)
                    released.append(row.node)
        return released

    def _stop_paused_nodes(self, failures: _Failures) -> list[str]:
        """Stop running nodes while the stack is paused. Let booting nodes get ready first, since keys wait for them."""
        stopped: list[str] = []
        with failures.recorded("the pause"):
            if self.pauses.read() is None:
                return stopped
            for row in self.nodes.read_many(self.node_names):
                with failures.recorded(row.node):
                    if row.phase == "running":
                        self.redis_control(Release(op="release", node=row.node, keeps_hold=True))
                        stopped.append(row.node)
        return stopped

    def _release(self, row: NodeRow) -> None:
        is_over = row.phase in ("stopping", "stopped") or self._has_execution(row)
        if is_over and self.machines(row.node).has_stopped(row):  # the event was lost, or the node is always on
            self.redis_control(InstanceStopped(op="instance_stopped", node=row.node))
        else:
            put((OVERDUE_NODES, 1))  # counted even if the stop fails
            self.redis_control(Release(op="release", node=row.node, keeps_hold=True))

    def _is_owned(self, row: KeyRow, running: Container[str] = ()) -> bool:
        """Return whether a key is within its deadline and its execution is in `running` or runs in Step Functions."""
        return row.is_live(self.clock.now_us()) and (
            row.execution_name in running or self.executions.is_running(self.key_lifecycle_arn, row.execution_name)
        )

    def _is_node_owned(self, row: NodeRow) -> bool:
        """Return whether a node needs no cleanup because its instance matches its phase and an execution owns it.

        In phase `stopped` the instance must be off, except in its first boot. An always-on node may be off only while
        the stack is paused. In any other phase the instance must not be off, the deadline must not have passed, and an
        execution must be running. A stopping node needs no execution while its instance is stopping, until the stop is
        late.
        """
        state, started_at_us = self.machines(row.node).state_since(row)
        age_us = self.clock.now_us() - started_at_us
        if row.phase == "stopped":
            if state in ("pending", "running"):
                return age_us <= _FIRST_BOOT_US
            return state == "stopping" or row.node not in self.always_on or self.pauses.read() is not None
        if self.clock.now_us() >= row.deadline_at_us or state in ("stopped", "terminated"):
            return False
        if (row.phase, state) == ("stopping", "stopping"):
            return not row.is_late_to_stop(self.clock.now_us())
        return self._has_execution(row)

    def _has_execution(self, row: NodeRow) -> bool:
        return any(
            self.executions.is_running(self.redis_node_arn, node_execution_name(row.node, row.generation, part))
            for part in (row.part, row.part - 1)  # the row may name a successor before the successor starts
            if part > 0
        )

    def _return_to_s3(self, row: KeyRow) -> None:
        self.executions.stop(self.key_lifecycle_arn, row.execution_name, cause="its deadline has passed")
        self.redis_control(
            Leave(
                op="leave",
                key=row.key,
                key_hash=row.hash,
                epoch=row.epoch,
                node=row.node,
                failures=row.failures,
                is_failed=True,
                queue_us=[],
            )
        )


def _differs(row: KeyRow, shown: RoutedKey | None) -> bool:
    """Return whether the digest disagrees with a key's row."""
    return shown is None or (shown.epoch, shown.phase_rank, shown.tier) != (
        row.epoch,
        KEY_PHASE_RANK[row.phase],
        row.tier,
    )


def _shows_wrong_run(node: NodeRow, shown: RunningNode | None) -> bool:
    """Return whether the digest disagrees with a node's row. Only a running node has to be in the digest."""
    runs = node.phase == "running"
    return runs if shown is None else (shown.generation, shown.is_running) != (node.generation, runs)
