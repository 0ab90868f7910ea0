"""The source of the page's data: a stack's table, and figures from local logs or CloudWatch."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache.core.keys import key_hash
from burstcache.core.node_memory import NodeMemory
from burstcache.core.prices import PriceSheet
from burstcache.core.rows import KeyRow, Lease, NodeRow, Pause
from burstcache.core.worth import sheet_of_region
from burstcache.queries.explain import Explanation
from burstcache.queries.system import System
from burstcache.queries.transitions import StackRules
from burstcache_cli.explain import max_object_bytes_of, rules_of
from burstcache_cli.stack import Stack, local_stack, running_in
from burstcache_dashboard.cloudwatch import CloudWatch
from burstcache_dashboard.local_logs import LocalLogs
from burstcache_dashboard.measured import Measures
from burstcache_local import state_file
from burstcache_local.state_file import RunningCloud
from burstcache_sim.bill.setup import Setup, deployed_setup

if TYPE_CHECKING:
    from types_boto3_stepfunctions.literals import ExecutionStatusType
    from types_boto3_stepfunctions.type_defs import ExecutionListItemTypeDef

_REPORT_DELAY_MS = 15_000  # maximum delay from a read to the row's update, because readers batch reports for 10 s
_MOST_REREAD = 1_000  # maximum number of rows to read by key; for more rows, a scan is as fast
_FAILED: tuple[ExecutionStatusType, ...] = ("FAILED", "TIMED_OUT")
_ABORTED: tuple[ExecutionStatusType, ...] = ("ABORTED",)
_QUEUES = ("UndeliveredEvents", "FailedEvents")  # dead-letter queues; the stack has an output with each URL


@dataclass(frozen=True, slots=True)
class Rows:
    """The table's rows at a point in time."""

    at_us: int
    keys: tuple[KeyRow, ...]
    nodes: tuple[tuple[NodeRow, tuple[Lease, ...]], ...]
    pause: Pause | None
    memories: Mapping[str, NodeMemory] = field(default_factory=dict)  # of the nodes, by name


@dataclass(frozen=True, slots=True)
class Failed:
    """Failures without a metric: failed executions and dead-lettered events."""

    executions: tuple[ExecutionListItemTypeDef, ...] = ()  # executions for keys and nodes, newest first
    events: Mapping[str, int] = field(default_factory=dict)  # number of dead-lettered events, by queue


@dataclass(frozen=True)
class Source:
    """The stack that the page shows. All methods block and must not be called in the event loop."""

    stack: Stack
    system: System
    measures: Measures
    log_dir: Path | None  # a local run's log folder (None: a deployed stack)
    state_dir: Path | None = None  # folder of a local run's state file
    running: RunningCloud | None = None  # a local run, from the state file
    explained_large: dict[str, Explanation] = field(default_factory=dict)  # the newest one of a large object, by key

    def rows(self) -> Rows:
        """Scan the table, or raise ServiceError if DynamoDB fails."""
        return self._rows(tuple(self.system.key_rows()))

    def rows_after(self, former: Rows) -> Rows:
        """Return the table after rereading the rows that have probably changed. All other rows come from `former`.

        Node rows are always reread. In a local run, the rows of keys above S3 and of recently read keys are also
        reread. Reads through the client library, writes to the bucket and manual starts become visible at the next
        scan.
        """
        keys = self.measures.keys_read_since(former.at_us // 1000 - _REPORT_DELAY_MS)
        if keys is None:
            return self._rows(former.keys)
        hashes = {key_hash(key) for key in keys} | {row.hash for row in former.keys if row.phase != "s3"}
        if len(hashes) > _MOST_REREAD:
            return self._rows(former.keys)
        fresh = self.system.key_rows_of(hashes)
        kept = [fresh.pop(row.hash, None) if row.hash in hashes else row for row in former.keys]
        return self._rows((*filter(None, kept), *fresh.values()))

    def _rows(self, keys: tuple[KeyRow, ...]) -> Rows:
        system = self.system
        nodes = ((system.nodes.read(name), tuple(system.nodes.leases(name))) for name in system.node_names)
        memories = {name: system.uses.read(name).memory for name in system.node_names}
        return Rows(system.clock.now_us(), keys, tuple(nodes), system.pauses.read(), memories)

    @cached_property
    def region(self) -> str:
        """The stack's region."""
        return str(self.stack.session.region_name)

    @cached_property
    def prices(self) -> PriceSheet:
        """The region's prices."""
        return sheet_of_region(self.region)

    @cached_property
    def rules(self) -> StackRules:
        """The stack's decision rules. Raises StackIncompleteError if the stack has no output with the rules."""
        return rules_of(self.stack)

    @cached_property
    def max_object_bytes(self) -> int:
        """Maximum size of objects in faster tiers [bytes]."""
        return max_object_bytes_of(self.stack)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The stack's parameters."""
        return self.stack.parameters

    @cached_property
    def setup(self) -> Setup:
        """The stack's setup, which determines its bill."""
        has_settings = "PolicySettings" in self.stack.outputs
        return deployed_setup(self.parameters, node_name=self.rules.settings.node_type if has_settings else "")

    def renewed(self) -> Source:
        """Return this source, or a new source without cached data if the stack was updated or replaced.

        An ended local run's source remains valid until another run starts in the same folder.
        """
        if self.state_dir:
            running = state_file.read(self.state_dir)
            return self if running in (None, self.running) else local_source(self.state_dir)
        stack = replace(self.stack)  # a copy without cached properties
        return self if stack.version == self.stack.version else source_of(stack)

    def node_runs(self) -> int:
        """Return the number of executions for nodes. A run of several days has several executions."""
        if not (arn := self.system.node_machine_arn):
            return 0
        pages = self.stack.clients.states.get_paginator("list_executions").paginate(stateMachineArn=arn)
        return sum(len(page["executions"]) for page in pages)

    def failed_executions(self, since_us: int, most: int = 20) -> tuple[ExecutionListItemTypeDef, ...]:
        """Return the latest failed executions for keys and nodes since a time.

        A node's execution is aborted by `redis stop` or a pause, or if the node is lost, which its row says. A key's is
        aborted by the janitor, because it hangs.
        """
        failed: list[ExecutionListItemTypeDef] = []
        machines = {self.system.key_machine_arn: (*_FAILED, *_ABORTED), self.system.node_machine_arn: _FAILED}
        for arn, statuses in machines.items():
            for status in statuses if arn else ():
                answer = self.stack.clients.states.list_executions(
                    stateMachineArn=arn, statusFilter=status, maxResults=most
                )
                failed += (each for each in answer["executions"] if each["stopDate"].timestamp() * 1e6 >= since_us)
        return tuple(sorted(failed, key=lambda each: each["stopDate"], reverse=True)[:most])

    def waiting_events(self) -> Mapping[str, int]:
        """Return the number of dead-lettered events by queue."""
        counts, name = {}, "ApproximateNumberOfMessages"
        for queue in _QUEUES:
            if url := self.stack.outputs.get(f"{queue}QueueUrl"):
                answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
                counts[queue] = int(answer["Attributes"][name])
        return counts

    @cached_property
    def _sqs(self) -> Any:
        return self.stack.client("sqs")


def _began_us(running: RunningCloud) -> int:
    """Return a local run's start time, since 1970 [us], from the ticks since boot in its state file."""
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round((booted_s + int(running.started) / os.sysconf("SC_CLK_TCK")) * 1_000_000)


def source_of(stack: Stack) -> Source:
    """Return the source for a deployed stack."""
    return Source(stack, stack.system(), CloudWatch(stack), None)


def local_source(state_dir: Path) -> Source:
    """Return the source for the local run in a folder, or raise LocalRunAbsentError."""
    running = running_in(state_dir)
    stack, log_dir = local_stack(running), Path(running.log_dir)
    system = stack.system()
    logs = LocalLogs(log_dir, system.clock, since_us=_began_us(running))
    return Source(stack, system, logs, log_dir, state_dir, running)
