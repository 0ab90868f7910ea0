"""The ECS service that runs a hub for readers that members cannot reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.calls import call_aws


@dataclass(frozen=True, slots=True)
class HubService:
    """The hub's ECS service, which can be started and stopped. Every method raises ServiceError if ECS fails.

    Attributes:
        name: `cluster/service`.
        make_client: Creates an AWS client by service name. The ECS client is created lazily, as it is rarely needed.
    """

    name: str
    make_client: Callable[[str], Any]

    def run(self, tasks: int) -> None:
        """Set the desired number of tasks. Idempotent."""
        cluster, _, service = self.name.partition("/")
        call_aws(self.make_client("ecs").update_service, cluster=cluster, service=service, desiredCount=tasks)

    def check_permissions(self) -> None:
        """Verify the permission with an update that changes nothing."""
        cluster, _, service = self.name.partition("/")
        call_aws(self.make_client("ecs").update_service, cluster=cluster, service=service)
