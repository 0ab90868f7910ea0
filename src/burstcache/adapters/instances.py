"""The EC2 instances that Redis nodes run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock
from burstcache.core.errors import InstanceStoppingTransientError, NodeFailedError, ServiceError
from burstcache.core.parameters import US_PER_S

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_STOP_WITHIN_S = 380
_ASK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Instances:
    """Starts and stops the instances of nodes. Every method raises ServiceError if EC2 fails."""

    instance_ids: Mapping[str, str]  # by node
    client: EC2Client
    clock: Clock

    def state(self, node: str) -> str:
        """Return `pending`, `running`, `stopping`, `stopped`, `shutting-down` or `terminated`."""
        return self.state_since(node)[0]

    def state_since(self, node: str) -> tuple[str, int]:
        """Return the state and when the instance was last started [us]."""
        answer = ask(self.client.describe_instances, InstanceIds=[self.instance_ids[node]])
        instance = answer["Reservations"][0]["Instances"][0]
        return instance["State"]["Name"], int(instance["LaunchTime"].timestamp()) * US_PER_S

    def start(self, node: str) -> None:
        """Start the instance; one that runs already is left alone.

        Raises:
            InstanceStoppingTransientError: It has not finished stopping.
        """
        try:
            ask(self.client.start_instances, InstanceIds=[self.instance_ids[node]])
        except ServiceError as error:
            if error.code == "IncorrectInstanceState":
                raise InstanceStoppingTransientError(f"instance of {node} is {self.state(node)}") from error
            raise

    def stop(self, node: str) -> None:
        """Stop the instance and wait until it has stopped.

        Raises:
            NodeFailedError: It has not stopped in time.
        """
        give_up_s = self.clock.monotonic_s() + _STOP_WITHIN_S
        while (state := self._try_stop(node)) != "stopped":
            if self.clock.monotonic_s() > give_up_s:
                raise NodeFailedError(f"instance of {node} is still {state} {_STOP_WITHIN_S} s after StopInstances")
            self.clock.sleep(_ASK_EVERY_S)

    def _try_stop(self, node: str) -> str:
        state = self.state(node)
        if state in ("pending", "running"):
            try:
                ask(self.client.stop_instances, InstanceIds=[self.instance_ids[node]])
            except ServiceError as error:
                if error.code != "IncorrectInstanceState":  # a pending one must be running first
                    raise
        return state
