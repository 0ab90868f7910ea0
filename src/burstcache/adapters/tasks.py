"""The ECS tasks of Redis nodes on Fargate. Each run of a node is a task of its own.

A cache node's task calls no AWS API. A state database's task has a second container, which restores the database,
announces it and saves it. Two tasks never hold one database, so a run waits until the former one's task has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.access import TaskPlace
from burstcache.adapters.calls import call_aws
from burstcache.adapters.clock import Clock
from burstcache.core.errors import NodeFailedError, ServiceError, ServiceTransientError, in_one_line
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import NodeRow
from burstcache.core.table import NodeColumns
from burstcache.logs import logger

if TYPE_CHECKING:
    from burstcache.core.node_kinds import NodeKind

_PROVIDERS: Mapping[NodeKind, str] = {"fargate-spot": "FARGATE_SPOT", "fargate": "FARGATE"}
_KINDS = {provider: kind for kind, provider in _PROVIDERS.items()}
# Refusals that another capacity provider may not share: no capacity, or a quota, of which Spot has its own.
_REFUSALS = frozenset({"ClientException", "LimitExceededException"})
_INTERRUPTIONS = frozenset({"SpotInterruption", "TerminationNotice"})
_ADDRESSES = ("privateIPv6Address", "privateIPv4Address")  # the preferred one first
_INTERFACES = ("ElasticNetworkInterface", "eni")  # in ECS's answers and in its events
_KNOWN_WITHIN_US = 60 * US_PER_S  # ECS's answers are eventually consistent
_NO_TASK = "0" * 32  # ID of no task
_CONTAINERS_OF_STATE = ("redis", "keeper")
_STOP_REASON = "Burstcache stops the node"


@dataclass(frozen=True, slots=True)
class TaskState:
    """The state of a node's task, from ECS's event or answer."""

    task: str  # ARN
    node: str
    generation: int
    kind: str  # fargate or fargate-spot
    is_running: bool
    is_ending: bool  # asked to stop, or over
    is_over: bool
    is_interrupted: bool  # AWS took the capacity back
    host: str  # empty until ECS has attached the network interface
    reason: str  # of the end

    @classmethod
    def of(cls, task: Mapping[str, Any]) -> TaskState | None:
        """Decode a task of ECS. Return None if it belongs to no run of a node."""
        node, slash, generation = task.get("startedBy", "").rpartition("/")
        if not (slash and generation.isdecimal()):
            return None
        last, code = task["lastStatus"], task.get("stopCode", "")
        is_ending = "STOPPED" in (last, task["desiredStatus"])
        return cls(
            task=task["taskArn"],
            node=node,
            generation=int(generation),
            kind=_KINDS.get(task.get("capacityProviderName", ""), "fargate"),
            is_running=last == "RUNNING" and not is_ending,
            is_ending=is_ending,
            is_over=last == "STOPPED",
            is_interrupted=is_ending and code in _INTERRUPTIONS,
            host=_host_of(task),
            reason=in_one_line(": ".join(filter(None, [code, task.get("stoppedReason", "")]))),
        )


@dataclass(frozen=True, slots=True)
class Tasks:
    """The nodes' tasks, started and stopped without waiting. Every method raises ServiceError if ECS fails."""

    place: TaskPlace
    client: Any
    clock: Clock

    @property
    def is_off_at_once(self) -> bool:
        """Whether a stop needs no event. A cache node's needs none, since the next run is another task."""
        return not self.place.has_state

    def describe(self, row: NodeRow) -> TaskState | None:
        """Return the state of the run's latest task, or None if ECS does not know it."""
        return next(iter(self._described([row.task] if row.task else [])), None)

    def state(self, row: NodeRow) -> str:
        """Return `pending`, `running`, `stopping` or `stopped`. A cache node's ending task counts as stopped."""
        return self.state_since(row)[0]

    def state_since(self, row: NodeRow) -> tuple[str, int]:
        """Return the state, and 0 since no task has a first boot. A new task may not be known to ECS yet."""
        if (task := self.describe(row)) is None:
            is_new = row.phase == "booting" and self.clock.now_us() - row.booted_at_us < _KNOWN_WITHIN_US
            return ("pending" if is_new else "stopped"), 0
        if task.is_ending:
            return ("stopped" if self.is_off_at_once or task.is_over else "stopping"), 0
        return ("running" if task.is_running else "pending"), 0

    def has_stopped(self, row: NodeRow) -> bool:
        """Return True if no task runs or starts for the node's run, nor saves its database."""
        return self.state(row) == "stopped"

    def ensure_exists(self, row: NodeRow) -> None:
        """Do nothing, because each run gets a new task."""

    def start(self, row: NodeRow, *, ended: str = "") -> NodeColumns:
        """Run a task for the node's run, or for a task that AWS interrupted during its boot.

        A task on Spot that is refused or interrupted is replaced by one on demand. If a task of an earlier run still
        has the database, stop that one, and start none: ECS's event about its end calls for another attempt.

        Raises:
            NodeFailedError: ECS starts no task. The message contains its reason.
        """
        if self.place.has_state and (former := self._former(row)):
            for task in former:
                self.stop_task(task)
            return NodeColumns()
        kinds: tuple[NodeKind, ...] = ("fargate-spot", "fargate") if self.place.kind == "fargate-spot" else ("fargate",)
        refusals: list[str] = []
        if ended:
            kinds, refusals = kinds[::-1], ["AWS interrupted an earlier task of this boot"]
        for kind in kinds:
            try:
                task = self._run(row, kind, ended)
            except NodeFailedError as error:
                refusals.append(f"{kind}: {error}")
            else:
                return NodeColumns(task=task, task_kind=kind, notice="; ".join(refusals))
        raise NodeFailedError(f"ECS starts no task for {row.node}: {'; '.join(refusals)}")

    def _run(self, row: NodeRow, kind: NodeKind, ended: str) -> str:
        """Run one task, and return its ARN. Raise NodeFailedError if the capacity provider refuses it."""
        network = {
            "subnets": list(self.place.subnets),
            "securityGroups": list(self.place.security_groups),
            "assignPublicIp": self.place.public_ip,
        }
        try:
            response = call_aws(
                self.client.run_task,
                cluster=self.place.cluster,
                taskDefinition=self.place.definition,
                capacityProviderStrategy=[{"capacityProvider": _PROVIDERS[kind], "weight": 1}],
                count=1,
                startedBy=_started_by(row),
                clientToken=hashlib.sha256(f"{_started_by(row)} {kind} {ended}".encode()).hexdigest(),
                propagateTags="TASK_DEFINITION",
                enableECSManagedTags=False,
                networkConfiguration={"awsvpcConfiguration": network},
                **({"overrides": _overrides(row)} if self.place.has_state else {}),
            )
        except ServiceTransientError:
            raise
        except ServiceError as error:
            if error.code not in _REFUSALS:
                raise
            raise NodeFailedError(in_one_line(error)) from error
        for task in response["tasks"]:
            return str(task["taskArn"])
        reasons = [failure.get("reason", "") for failure in response["failures"]]
        raise NodeFailedError(in_one_line(", ".join(filter(None, reasons)) or "no reason given"))

    def stop(self, row: NodeRow, *, force: bool = False) -> bool:
        """Stop all tasks of the node's run. Return True if nothing waits for their end, or if they are over."""
        listed = call_aws(self.client.list_tasks, cluster=self.place.cluster, startedBy=_started_by(row))["taskArns"]
        tasks = sorted({row.task, *listed} - {""})
        for task in tasks:
            self.stop_task(task)
        return self.is_off_at_once or all(task.is_over for task in self._described(tasks))

    def stop_task(self, task: str) -> None:
        """Stop one task, unless it has ended."""
        try:
            call_aws(self.client.stop_task, cluster=self.place.cluster, task=task, reason=_STOP_REASON)
        except ServiceError as error:
            if error.code != "InvalidParameterException":  # ECS does not know it any more
                raise
            logger().info("a task has ended already", task=task, reason=str(error))

    def _former(self, row: NodeRow) -> list[str]:
        """Return the tasks of the node's other runs that are not over."""
        tasks: list[TaskState] = []
        for status in ("RUNNING", "STOPPED"):  # ECS lists a task that is asked to stop as STOPPED
            listed = call_aws(
                self.client.list_tasks,
                cluster=self.place.cluster,
                family=self.place.definition,
                desiredStatus=status,
            )
            tasks += self._described(listed["taskArns"])
        return [
            each.task
            for each in tasks
            if each.node == row.node and each.generation != row.generation and not each.is_over
        ]

    def _described(self, tasks: Sequence[str]) -> list[TaskState]:
        """Return the states of up to 100 tasks, without those that ECS does not know."""
        if not tasks:
            return []
        response = call_aws(self.client.describe_tasks, cluster=self.place.cluster, tasks=[*tasks])
        return [state for state in map(TaskState.of, response["tasks"]) if state is not None]

    def check_permissions(self) -> None:
        """Verify the permissions to describe, list and stop tasks, with a task that does not exist."""
        self.check_reading()
        call_aws(self.client.list_tasks, cluster=self.place.cluster, startedBy="self-test")
        self.stop_task(_NO_TASK)

    def check_reading(self) -> None:
        """Verify the permission to describe tasks, with a task that does not exist."""
        call_aws(self.client.describe_tasks, cluster=self.place.cluster, tasks=[_NO_TASK])


def _overrides(row: NodeRow) -> dict[str, Any]:
    """Return the variables by which a task knows its database and its run."""
    variables = [{"name": "NODE", "value": row.node}, {"name": "RUN", "value": f"{row.generation:015d}"}]
    return {"containerOverrides": [{"name": name, "environment": variables} for name in _CONTAINERS_OF_STATE]}


def _started_by(row: NodeRow) -> str:
    return f"{row.node}/{row.generation}"


def _host_of(task: Mapping[str, Any]) -> str:
    """Return the address of a task's network interface, or an empty text."""
    for attachment in task.get("attachments", ()):
        if attachment["type"] in _INTERFACES:
            details = {detail["name"]: detail["value"] for detail in attachment["details"]}
            return next((str(details[name]) for name in _ADDRESSES if details.get(name)), "")
    return ""
