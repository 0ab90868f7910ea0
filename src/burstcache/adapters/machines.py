"""The machines that Redis nodes run on, by one interface: EC2 instances (`instances`) and ECS tasks (`tasks`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from burstcache.access import RedisNode, TaskPlace, instance_ids
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock
from burstcache.adapters.instances import Instances
from burstcache.adapters.tasks import Tasks
from burstcache.core.databases import is_database
from burstcache.core.rows import NodeRow
from burstcache.core.table import NodeColumns


class Machines(Protocol):
    """The machines of nodes, started and stopped without waiting. Every method raises ServiceError if AWS fails."""

    @property
    def is_off_at_once(self) -> bool:
        """Whether a stop needs no event: the next run may be on another machine meanwhile."""

    def state(self, row: NodeRow) -> str:
        """Return `pending`, `running`, `stopping`, `stopped`, `shutting-down` or `terminated`."""

    def state_since(self, row: NodeRow) -> tuple[str, int]:
        """Return the state and the last start time, 0 if unknown [us]."""

    def has_stopped(self, row: NodeRow) -> bool:
        """Return True if the machine is stopped or gone."""

    def ensure_exists(self, row: NodeRow) -> None:
        """Raise NodeFailedError if the node can never start again."""

    def start(self, row: NodeRow, *, ended: str = "") -> NodeColumns:
        """Start the machine, and return the columns that the row needs to find it again. Idempotent.

        Args:
            row: The row of the booting node.
            ended: The task that ended during this boot, if any. Each one is replaced once.

        Raises:
            NodeFailedError: The machine cannot start.
        """

    def stop(self, row: NodeRow, *, force: bool = False) -> bool:
        """Stop the machine, forcibly if requested. Return True if the node is off, False if an event follows."""


@dataclass(frozen=True, slots=True)
class NodeMachines:
    """The machines of a stack's nodes. A call returns those that a node runs on."""

    instances: Instances
    tasks: Tasks | None = None  # of cache nodes, unless they have instances
    state_tasks: Tasks | None = None  # of state databases, unless they have instances

    @classmethod
    def of(
        cls,
        nodes: tuple[RedisNode, ...],
        clients: Clients,
        clock: Clock,
        *,
        tasks: TaskPlace | None,
        state_tasks: TaskPlace | None,
    ) -> NodeMachines:
        """Return the machines of nodes, given where those without an instance run as tasks."""
        ecs = clients.make("ecs") if tasks or state_tasks else None
        return cls(
            Instances(instance_ids(nodes), clients.ec2),
            None if tasks is None else Tasks(tasks, ecs, clock),
            None if state_tasks is None else Tasks(state_tasks, ecs, clock),
        )

    def __call__(self, node: str) -> Instances | Tasks:
        """Return the machines that a node runs on."""
        return (self.state_tasks if is_database(node) else self.tasks) or self.instances
