"""The EC2 instances of Redis nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.adapters.calls import call_aws
from burstcache.core.errors import InstancePendingTransientError, NodeFailedError, ServiceError
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import NodeRow
from burstcache.core.table import NodeColumns

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_GONE = "terminated"


@dataclass(frozen=True, slots=True)
class Instances:
    """The nodes' instances, started and stopped without waiting. Every method raises ServiceError if EC2 fails."""

    instance_ids: Mapping[str, str]  # instance id by node
    client: EC2Client

    @property
    def is_off_at_once(self) -> bool:
        """Whether a stop needs no event. An instance starts again only after EC2's event about its stop."""
        return False

    def node_of(self, instance_id: str) -> str | None:
        """Return an instance's node, or None."""
        return next((node for node, id_ in self.instance_ids.items() if id_ == instance_id), None)

    def state(self, row: NodeRow) -> str:
        """Return `pending`, `running`, `stopping`, `stopped`, `shutting-down` or `terminated`."""
        return self.state_since(row)[0]

    def state_since(self, row: NodeRow) -> tuple[str, int]:
        """Return the state and the last start time [us]. A missing instance counts as terminated."""
        try:
            response = call_aws(self.client.describe_instances, InstanceIds=[self.instance_ids[row.node]])
        except ServiceError as error:
            if error.code == "InvalidInstanceID.NotFound":
                return _GONE, 0
            raise
        for reservation in response["Reservations"]:
            for instance in reservation["Instances"]:
                return instance["State"]["Name"], int(instance["LaunchTime"].timestamp()) * US_PER_S
        return _GONE, 0

    def has_stopped(self, row: NodeRow) -> bool:
        """Return True if the instance is stopped or terminated."""
        return self.state(row) in ("stopped", _GONE)

    def ensure_exists(self, row: NodeRow) -> None:
        """Raise NodeFailedError if the instance can never start again."""
        if (state := self.state(row)) in ("shutting-down", _GONE):
            raise NodeFailedError(
                f"instance {self.instance_ids[row.node]} of {row.node} is {state} and never starts again:"
                " deploy with a higher RedisNodeIssue, which replaces it"
            )

    def start(self, row: NodeRow, *, ended: str = "") -> NodeColumns:
        """Start the instance. Do nothing if it is running or stopping; EC2 reports when an instance has stopped.

        Raises:
            NodeFailedError: The instance can never start again.
        """
        try:
            call_aws(self.client.start_instances, InstanceIds=[self.instance_ids[row.node]])
        except ServiceError as error:
            if error.code not in ("IncorrectInstanceState", "InvalidInstanceID.NotFound"):
                raise
            self.ensure_exists(row)
        return NodeColumns()

    def stop(self, row: NodeRow, *, force: bool = False) -> bool:
        """Stop the instance, forcibly if requested.

        Returns:
            True if the instance was already stopped. EC2 then sends no event.

        Raises:
            InstancePendingTransientError: The instance is still starting.
        """
        try:
            response = call_aws(self.client.stop_instances, InstanceIds=[self.instance_ids[row.node]], Force=force)
        except ServiceError as error:
            if error.code not in ("IncorrectInstanceState", "InvalidInstanceID.NotFound"):
                raise
            if (state := self.state(row)) in ("shutting-down", _GONE):
                return True
            raise InstancePendingTransientError(f"instance of {row.node} is {state}") from error
        return response["StoppingInstances"][0]["PreviousState"]["Name"] == "stopped"
