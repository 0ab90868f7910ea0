"""Where the page's figures come from: the rows of any stack, and what it has measured, here or in CloudWatch."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache.core.keys import key_hash
from burstcache.core.prices import PriceSheet
from burstcache.core.rows import KeyRow, Lease, NodeRow, Pause
from burstcache.core.worth import sheet_of_region
from burstcache.queries.moves import StackRules
from burstcache.queries.system import System
from burstcache_cli.explain import max_object_bytes_of, rules_of
from burstcache_cli.stack import Stack, local_stack, running_in
from burstcache_dashboard.cloudwatch import CloudWatch
from burstcache_dashboard.local_logs import LocalLogs
from burstcache_dashboard.measured import Measures
from burstcache_local import state_file
from burstcache_local.state_file import RunningCloud

if TYPE_CHECKING:
    from types_boto3_stepfunctions.literals import ExecutionStatusType
    from types_boto3_stepfunctions.type_defs import ExecutionListItemTypeDef

_WRITTEN_LATE_MS = 15_000  # a read's row may be written that much later: readers gather for ten seconds
_MOST_ANEW = 1_000  # rows by their keys; where more are hot, a scan is no slower
_FAILED: tuple[ExecutionStatusType, ...] = ("FAILED", "TIMED_OUT", "ABORTED")
_QUEUES = ("UndeliveredEvents", "FailedEvents")  # where events wait for a person; each has an output with its URL


@dataclass(frozen=True, slots=True)
class Rows:
    """The table at one instant."""

    at_us: int
    keys: tuple[KeyRow, ...]
    nodes: tuple[tuple[NodeRow, tuple[Lease, ...]], ...]
    pause: Pause | None


@dataclass(frozen=True, slots=True)
class Failed:
    """What failed, apart from what is measured."""

    executions: tuple[ExecutionListItemTypeDef, ...] = ()  # of keys and nodes, the newest first
    events: Mapping[str, int] = field(default_factory=dict)  # how many wait for a person, by queue


@dataclass(frozen=True)
class Source:
    """One stack that is looked at. Reading takes time: never on the event loop."""

    stack: Stack
    system: System
    measures: Measures
    log_dir: Path | None  # of a local run; None: the stack is deployed
    state_dir: Path | None = None  # where the local run is found
    running: RunningCloud | None = None  # as it was found there

    def rows(self) -> Rows:
        """Return the table as it is now: a scan; raise ServiceError if DynamoDB fails."""
        return self._rows(tuple(self.system.key_rows()))

    def rows_after(self, former: Rows) -> Rows:
        """Return the table with the rows anew that can hardly be as they were; all others wait for a scan.

        These are nodes and, on a local run, keys above S3 and keys that were asked for a short time ago: what readers
        gather is written seconds later. What a program reads through the library, writes to the bucket or starts by
        hand is seen at the next scan.
        """
        asked = self.measures.asked_since(former.at_us // 1000 - _WRITTEN_LATE_MS)
        if asked is None:
            return self._rows(former.keys)
        hashes = {key_hash(key) for key in asked} | {row.hash for row in former.keys if row.phase != "s3"}
        if len(hashes) > _MOST_ANEW:
            return self._rows(former.keys)
        found = self.system.key_rows_of(hashes)
        kept = [found.pop(row.hash, None) if row.hash in hashes else row for row in former.keys]
        return self._rows((*filter(None, kept), *found.values()))

    def _rows(self, keys: tuple[KeyRow, ...]) -> Rows:
        system = self.system
        nodes = ((system.nodes.read(name), tuple(system.nodes.leases(name))) for name in system.node_names)
        return Rows(system.clock.now_us(), keys, tuple(nodes), system.pauses.read())

    @cached_property
    def region(self) -> str:
        """The region of the stack."""
        return str(self.stack.session.region_name)

    @cached_property
    def prices(self) -> PriceSheet:
        """The prices of the region."""
        return sheet_of_region(self.region)

    @cached_property
    def rules(self) -> StackRules:
        """What the stack decides by; raises StackIncompleteError if it does not say."""
        return rules_of(self.stack)

    @cached_property
    def max_object_bytes(self) -> int:
        """What a faster tier takes [bytes]."""
        return max_object_bytes_of(self.stack)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the stack."""
        return self.stack.parameters

    def renewed(self) -> Source:
        """Return this source, or a new one if the stack is another by now: all that is kept may be wrong.

        A local run that has ended stays until there is another one in its folder.
        """
        if self.state_dir:
            running = state_file.read(self.state_dir)
            return self if running in (None, self.running) else local_source(self.state_dir)
        stack = replace(self.stack)  # which has asked nothing yet
        return self if stack.version == self.stack.version else source_of(stack)

    def node_runs(self) -> int:
        """Return how many executions the nodes have had; a run of several days has several."""
        if not (arn := self.system.node_machine_arn):
            return 0
        pages = self.stack.clients.states.get_paginator("list_executions").paginate(stateMachineArn=arn)
        return sum(len(page["executions"]) for page in pages)

    def failed_executions(self, since_us: int, most: int = 20) -> tuple[ExecutionListItemTypeDef, ...]:
        """Return the newest executions of keys and nodes that have failed since an instant."""
        found: list[ExecutionListItemTypeDef] = []
        for arn in filter(None, (self.system.key_machine_arn, self.system.node_machine_arn)):
            for status in _FAILED:
                answer = self.stack.clients.states.list_executions(
                    stateMachineArn=arn, statusFilter=status, maxResults=most
                )
                found += (each for each in answer["executions"] if each["stopDate"].timestamp() * 1e6 >= since_us)
        return tuple(sorted(found, key=lambda each: each["stopDate"], reverse=True)[:most])

    def waiting_events(self) -> Mapping[str, int]:
        """Return how many events wait for a person, by queue."""
        found, name = {}, "ApproximateNumberOfMessages"
        for queue in _QUEUES:
            if url := self.stack.outputs.get(f"{queue}QueueUrl"):
                answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
                found[queue] = int(answer["Attributes"][name])
        return found

    @cached_property
    def _sqs(self) -> Any:
        return self.stack.client("sqs")


def _began_us(running: RunningCloud) -> int:
    """Return when the local run's process began, which its description counts in ticks since the machine's boot."""
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round((booted_s + int(running.started) / os.sysconf("SC_CLK_TCK")) * 1_000_000)


def source_of(stack: Stack) -> Source:
    """Return what a deployed stack shows."""
    return Source(stack, stack.system(), CloudWatch(stack), None)


def local_source(state_dir: Path) -> Source:
    """Return what the local run of a folder shows, or raise LocalRunAbsentError."""
    running = running_in(state_dir)
    stack, log_dir = local_stack(running), Path(running.log_dir)
    system = stack.system()
    logs = LocalLogs(log_dir, system.clock, since_us=_began_us(running))
    return Source(stack, system, logs, log_dir, state_dir, running)
