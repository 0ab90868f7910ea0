"""The EC2 instances that Redis nodes run on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from burstcache.adapters.clients import client
from burstcache.core.errors import InstanceStoppingTransientError, NodeFailedError
from burstcache.settings import Settings

_STOP_WITHIN_S = 380
_ASK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Instances:
    """Starts and stops the instance of a node."""

    settings: Settings
    sleep: Callable[[float], None] = time.sleep
    _ec2: Any = field(default_factory=lambda: client("ec2"))

    def state(self, node: str) -> str:
        """Return `pending`, `running`, `stopping`, `stopped`, `shutting-down` or `terminated`."""
        return self.state_since(node)[0]

    def state_since(self, node: str) -> tuple[str, datetime]:
        """Return the state and when the instance was last started."""
        answer = self._ec2.describe_instances(InstanceIds=[self.settings.node(node).instance_id])
        instance = answer["Reservations"][0]["Instances"][0]
        return instance["State"]["Name"], instance["LaunchTime"]

    def start(self, node: str) -> None:
        """Start the instance; one that runs already is left alone.

        Raises:
            InstanceStoppingTransientError: It has not finished stopping.
        """
        try:
            self._ec2.start_instances(InstanceIds=[self.settings.node(node).instance_id])
        except ClientError as error:
            if error.response["Error"]["Code"] == "IncorrectInstanceState":
                raise InstanceStoppingTransientError(f"instance of {node} is {self.state(node)}") from error
            raise

    def stop(self, node: str) -> None:
        """Stop the instance and wait until it has stopped.

        Raises:
            NodeFailedError: It has not stopped in time.
        """
        give_up_s = time.monotonic() + _STOP_WITHIN_S
        while (state := self._try_stop(node)) != "stopped":
            if time.monotonic() > give_up_s:
                raise NodeFailedError(
                    f"instance of {node} is still {state} {_STOP_WITHIN_S} s after it was told to stop"
                )
            self.sleep(_ASK_EVERY_S)

    def _try_stop(self, node: str) -> str:
        state = self.state(node)
        if state in ("pending", "running"):
            try:
                self._ec2.stop_instances(InstanceIds=[self.settings.node(node).instance_id])
            except ClientError as error:
                if error.response["Error"]["Code"] != "IncorrectInstanceState":  # a pending one must be running first
                    raise
        return state
