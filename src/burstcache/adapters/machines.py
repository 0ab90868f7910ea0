"""The machines that Redis nodes run on, by one interface: EC2 instances (`instances`) and ECS tasks (`tasks`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from burstcache.adapters.instances import Instances
from burstcache.adapters.tasks import Tasks
from burstcache.core.rows import NodeRow
from burstcache.core.table import NodeColumns


class Machines(Protocol):
    """The machines of nodes, started and stopped without waiting. Every method raises ServiceError if AWS fails."""

    @property
    def is_off_at_once(self) -> bool:
        """Whether a stop needs no event: the next run is on another machine."""

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
    tasks: Tasks | None = None  # of the nodes without an instance

    def __call__(self, node: str) -> Instances | Tasks:
        """Return the machines that a node runs on."""
        return self.instances if self.tasks is None or node in self.instances.instance_ids else self.tasks
