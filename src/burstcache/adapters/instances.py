"""The EC2 instances that Redis nodes run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.adapters.calls import ask
from burstcache.core.errors import InstancePendingTransientError, NodeFailedError, ServiceError
from burstcache.core.parameters import US_PER_S

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_GONE = "terminated"


@dataclass(frozen=True, slots=True)
class Instances:
    """Starts and stops the instances of nodes, and waits for neither. Every method raises ServiceError if EC2 fails."""

    instance_ids: Mapping[str, str]  # by node
    client: EC2Client

    def node_of(self, instance_id: str) -> str | None:
        """Return the node that runs on an instance; None if none does."""
        return next((node for node, id_ in self.instance_ids.items() if id_ == instance_id), None)

    def state(self, node: str) -> str:
        """Return `pending`, `running`, `stopping`, `stopped`, `shutting-down` or `terminated`."""
        return self.state_since(node)[0]

    def state_since(self, node: str) -> tuple[str, int]:
        """Return the state and when the instance was last started [us]; one that is gone is terminated."""
        try:
            answer = ask(self.client.describe_instances, InstanceIds=[self.instance_ids[node]])
        except ServiceError as error:
            if error.code == "InvalidInstanceID.NotFound":
                return _GONE, 0
            raise
        for reservation in answer["Reservations"]:
            for instance in reservation["Instances"]:
                return instance["State"]["Name"], int(instance["LaunchTime"].timestamp()) * US_PER_S
        return _GONE, 0

    def has_stopped(self, node: str) -> bool:
        """Whether the instance does not run and will not by itself."""
        return self.state(node) in ("stopped", _GONE)

    def see_that_it_exists(self, node: str) -> None:
        """Raise NodeFailedError if the instance can never start again."""
        if (state := self.state(node)) in ("shutting-down", _GONE):
            raise NodeFailedError(
                f"instance {self.instance_ids[node]} of {node} is {state} and never starts again:"
                " deploy with a higher RedisNodeIssue, which replaces it"
            )

    def start(self, node: str) -> None:
        """Have the instance start; one that runs is left alone, and so is one that stops: EC2 tells when it has.

        Raises:
            NodeFailedError: It can never start again.
        """
        try:
            ask(self.client.start_instances, InstanceIds=[self.instance_ids[node]])
        except ServiceError as error:
            if error.code not in ("IncorrectInstanceState", "InvalidInstanceID.NotFound"):
                raise
            self.see_that_it_exists(node)

    def stop(self, node: str, *, force: bool = False) -> bool:
        """Have the instance stop, at once if that is forced.

        Returns:
            Whether it had stopped before: then EC2 sends no event.

        Raises:
            InstancePendingTransientError: It must be running first.
        """
        try:
            answer = ask(self.client.stop_instances, InstanceIds=[self.instance_ids[node]], Force=force)
        except ServiceError as error:
            if error.code not in ("IncorrectInstanceState", "InvalidInstanceID.NotFound"):
                raise
            if (state := self.state(node)) in ("shutting-down", _GONE):
                return True
            raise InstancePendingTransientError(f"instance of {node} is {state}") from error
        return answer["StoppingInstances"][0]["PreviousState"]["Name"] == "stopped"
