"""The janitor finds what no longer has an owner and has it switched off: `docs/understand/lifecycle.md`, "The janitor".

A row is looked at twice, some seconds apart: between a row's write and its execution's start nothing is wrong. Each key
and each node is cleaned by itself, so one that fails keeps nothing else from being switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.core.digest import RoutedKey, RunningNode
from burstcache.core.errors import CleaningFailedError
from burstcache.core.keys import node_execution_name
from burstcache.core.messages.operations import InstanceStopped, Leave, Operation, Release
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASE_RANK
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.logs import logger
from burstcache.metrics import OVERDUE_NODES, put

_LOOK_AGAIN_S = 5
# An instance that runs while its row says `stopped` may be in its first boot: it installs Redis and shuts itself down.
_FIRST_BOOT_US = 600 * US_PER_S


class Cleaned(TypedDict):
    """Keys that went back to S3, nodes that were stopped or whose stop was followed, nodes that a pause has ended."""

    keys: list[str]
    nodes: list[str]
    paused: list[str]


@dataclass(slots=True)
class _Failures:
    """What could not be cleaned, by its name, and why."""

    reasons: dict[str, Exception] = field(default_factory=dict)

    @contextmanager
    def noted(self, name: str) -> Iterator[None]:
        """Keep whatever fails from ending the run."""
        try:
            yield
        except Exception as error:
            logger().exception("not cleaned", item=name)
            self.reasons.setdefault(name, error)

    def end_the_run(self) -> None:
        """Raise CleaningFailedError if anything has failed."""
        if self.reasons:
            listed = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in self.reasons.items())
            raise CleaningFailedError(f"could not clean {listed}")


@dataclass(frozen=True, slots=True)
class Janitor:
    """Compares rows, executions and instances."""

    keys: KeyTable
    digest: DigestTable
    nodes: NodeTable
    executions: Executions
    instances: Instances
    pauses: Pauses
    key_lifecycle_arn: str
    redis_node_arn: str
    node_names: Sequence[str]
    always_on: Sequence[str]  # those of the nodes that never stop
    redis_control: Callable[[Operation], object]
    clock: Clock

    def clean(self) -> Cleaned:
        """Return keys and stop nodes that have lost their owner; name them.

        Raises:
            CleaningFailedError: Some could not be; everything else has been.
        """
        failures = _Failures()
        keys = self._unowned_keys(failures)
        nodes = self._unowned_nodes(self.node_names, failures)
        if keys or nodes:
            self.clock.sleep(_LOOK_AGAIN_S)
        cleaned = Cleaned(
            keys=self._return_keys(keys, failures),
            nodes=self._release_nodes(nodes, failures),
            paused=self._stop_paused_nodes(failures),
        )
        with failures.noted("the digest"):
            self._mend_digest()
        failures.end_the_run()
        return cleaned

    def _mend_digest(self) -> None:
        """Show what the digest lacks, and remove from it the keys that no tier serves any more.

        It is read before the rows: what they say beyond it is newer, or was never shown.
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
        """Return keys that have a life without an owner.

        A full set of started keys lets go those past their deadline (`adapters/hot_keys.py`): if such a one is still
        routed, the digest has it.
        """
        unowned = []
        with failures.noted("the started keys"):
            hashes = self.keys.started() | self.digest.read().routes.keys()
            rows = [row for row in self.keys.read_many(hashes).values() if row.phase != "s3"]
            running = self.executions.running(self.key_lifecycle_arn) if rows else frozenset[str]()
            for row in rows:
                with failures.noted(f"key {row.key!r}"):
                    if not self._is_owned(row, running):
                        unowned.append(row)
        return unowned

    def _unowned_nodes(self, names: Iterable[str], failures: _Failures) -> list[NodeRow]:
        """Return nodes that have lost their owner; the instances of all others learn that they are looked after."""
        unowned = []
        for name in names:
            with failures.noted(name):
                row = self.nodes.read(name)
                if not self._is_node_owned(row):
                    unowned.append(row)
                elif row.phase in ("booting", "running"):
                    self.nodes.change(row, attended_at_us=self.clock.now_us())
        return unowned

    def _return_keys(self, suspects: Sequence[KeyRow], failures: _Failures) -> list[str]:
        """Return the keys to S3 whose life is the same as before and still has no owner."""
        returned = []
        for suspect in suspects:
            with failures.noted(f"key {suspect.key!r}"):
                row = self.keys.read(suspect.hash)
                if row is not None and row.phase != "s3" and row.epoch == suspect.epoch and not self._is_owned(row):
                    self._return_to_s3(row)
                    returned.append(row.key)
        return returned

    def _release_nodes(self, suspects: Sequence[NodeRow], failures: _Failures) -> list[str]:
        """Stop the nodes whose run is the same as before and still has no owner."""
        generations = {row.node: row.generation for row in suspects}
        released = []
        for row in self._unowned_nodes(generations, failures):
            with failures.noted(row.node):
                if row.generation == generations[row.node]:
                    self._release(row)
                    released.append(row.node)
        return released

    def _stop_paused_nodes(self, failures: _Failures) -> list[str]:
        """Stop the nodes that run while the stack is paused. One that boots gets ready first: its keys wait for it."""
        stopped: list[str] = []
        with failures.noted("the pause"):
            if self.pauses.read() is None:
                return stopped
            for row in self.nodes.read_many(self.node_names):
                with failures.noted(row.node):
                    if row.phase == "running":
                        self.redis_control(Release(op="release", node=row.node))
                        stopped.append(row.node)
        return stopped

    def _release(self, row: NodeRow) -> None:
        is_over = row.phase in ("stopping", "stopped") or self._has_execution(row)
        if is_over and self.instances.has_stopped(row.node):  # EC2's event was lost, or the node is always on
            self.redis_control(InstanceStopped(op="instance_stopped", node=row.node))
        else:
            put((OVERDUE_NODES, 1))  # also if it cannot be stopped
            self.redis_control(Release(op="release", node=row.node))

    def _is_owned(self, row: KeyRow, running: Container[str] = ()) -> bool:
        """Whether a key is within its deadline and has an execution: one of `running`, or one that is asked for."""
        return row.is_live(self.clock.now_us()) and (
            row.execution_name in running or self.executions.is_running(self.key_lifecycle_arn, row.execution_name)
        )

    def _is_node_owned(self, row: NodeRow) -> bool:
        """Whether a stopped node is off and may be, and any other is on and has an execution within its deadline.

        A stopping one needs none once its instance stops, for as long as that may take.
        """
        state, started_at_us = self.instances.state_since(row.node)
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
            for part in (row.part, row.part - 1)  # the row is ahead while a successor starts
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
    """Whether the digest shows a key otherwise than its row has it."""
    return shown is None or (shown.epoch, shown.phase_rank, shown.tier) != (
        row.epoch,
        KEY_PHASE_RANK[row.phase],
        row.tier,
    )


def _shows_wrong_run(node: NodeRow, shown: RunningNode | None) -> bool:
    """Whether the digest shows a node otherwise than its row has it; one that never ran need not be shown."""
    runs = node.phase == "running"
    return runs if shown is None else (shown.generation, shown.is_running) != (node.generation, runs)
