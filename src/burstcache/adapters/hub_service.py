"""The service of ECS that runs a hub for readers that members cannot dial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from burstcache.adapters.calls import ask


@dataclass(frozen=True, slots=True)
class HubService:
    """Starts and ends the hub. Every method raises ServiceError if ECS fails.

    Attributes:
        name: Its cluster and itself, with a slash between them.
        make_client: Makes a client of a service by its name; that of ECS is seldom needed.
    """

    name: str
    make_client: Callable[[str], Any]

    def run(self, tasks: int) -> None:
        """Have this number of tasks run; nothing happens if they do."""
        cluster, _, service = self.name.partition("/")
        ask(self.make_client("ecs").update_service, cluster=cluster, service=service, desiredCount=tasks)

    def try_out(self) -> None:
        """Ask for a change that is none."""
        cluster, _, service = self.name.partition("/")
        ask(self.make_client("ecs").update_service, cluster=cluster, service=service)
