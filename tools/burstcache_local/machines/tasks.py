"""Tasks started by RunTask, run as local processes. moto has the tasks' records, a runner drives their states.

A task gets a loopback address of its own. Its server has no TLS, because Redis wheels are built without it, so a front
terminates TLS on the task's port.
"""

from __future__ import annotations

import itertools
import logging
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burstcache_local.faults import Faults
from burstcache_local.functions import ACCOUNT
from burstcache_local.machines import containers, processes
from burstcache_local.machines.nodes import REDIS_PORT, SERVER_PORT
from burstcache_local.machines.tls_front import TlsFront
from burstcache_local.moto.services import Services
from burstcache_local.moto.task_states import end_task, publish_task, set_status

_LOG = logging.getLogger(__name__)
_CLOSING_GRACE_S = 5.0
_POLL_S = 0.05
_DEFAULT_STOP_TIMEOUT_S = 30.0  # of ECS
_IMAGE_ERROR = "CannotPullContainerError: pull image manifest has been retried 7 time(s): {}: not found"


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Durations of a task's state transitions."""

    provision_s: float = 0.5  # from RunTask to the image download
    pull_s: float = 0.5  # of the image, and until the container starts
    release_s: float = 0.2  # of the network interface at the end


@dataclass(slots=True)
class _Run:
    """The request to stop a task, and the resources that it uses."""

    asked: threading.Event = field(default_factory=threading.Event)
    code: str = ""
    reason: str = ""
    grace_s: float | None = None  # None: the container's StopTimeout
    process: subprocess.Popen[bytes] | None = None
    front: TlsFront | None = None


class TaskRunner:
    """The runner of one cloud's tasks in moto that no ECS service started."""

    def __init__(
        self, services: Services, times: TaskTimes, folder: Path, faults: Faults, variables: Mapping[str, str] = {}
    ) -> None:
        self._services, self._times, self._folder, self._faults = services, times, folder, faults
        self._variables = variables
        self._runs: dict[str, _Run] = {}  # by task ARN
        self._numbers = itertools.count()
        self._lock, self._closing = threading.RLock(), threading.Event()

    def start(self) -> None:
        """Start managing the tasks."""
        self._services.tasks = self

    def stop(self) -> None:
        """End all processes. The tasks keep their states."""
        self._services.tasks = None
        self._closing.set()
        with self._lock:
            for run in self._runs.values():
                run.asked.set()
                self._free(run, grace_s=_CLOSING_GRACE_S)

    def address(self) -> str:
        """Return an unused address in the cloud's block."""
        number = next(self._numbers)
        block = self._services.relay_address.rsplit(".", 2)[0]
        return f"{block}.{200 + number // 250 % 50}.{1 + number % 250}"

    def refusal(self, provider: str) -> str:
        """Return the reason why a capacity provider starts no task now, or an empty text."""
        return self._faults.task_refusal(provider)

    def created(self, task: Any) -> None:
        """Start a task that RunTask has created."""
        run = self._runs[task.task_arn] = _Run()
        publish_task(task)
        threading.Thread(target=self._drive, args=(task, run), name=f"task {task.id}", daemon=True).start()

    def end(self, task: Any, code: str, reason: str, grace_s: float | None = None) -> None:
        """Ask a task to stop, unless it was asked before."""
        run = self._runs.get(task.task_arn)
        if run is None or run.asked.is_set():
            return
        run.code, run.reason, run.grace_s = code, reason, grace_s
        end_task(task, code, reason)
        publish_task(task)
        run.asked.set()

    def interrupt(self, count: int | None, *, notice_s: float, only_booting: bool = False) -> list[str]:
        """Take Spot's capacity back from up to `count` tasks that run or boot, and return their ARNs.

        Args:
            count: The most tasks. None: all.
            notice_s: Time from the notice to SIGKILL [s].
            only_booting: Whether running tasks are spared.
        """
        from moto.ecs.models import ecs_backends

        clusters = ecs_backends[ACCOUNT][self._services.region].tasks.values()
        tasks = [task for cluster in clusters for task in cluster.values()]
        live = [each for each in tasks if each.desired_status == "RUNNING"]
        spot = [each for each in live if each.capacity_provider_name == "FARGATE_SPOT"]
        if only_booting:
            spot = [each for each in spot if each.last_status != "RUNNING"]
        for task in spot[:count]:
            self.end(task, "SpotInterruption", "Your Spot Task was interrupted.", notice_s)
        return [task.task_arn for task in spot[:count]]

    def _drive(self, task: Any, run: _Run) -> None:
        """Take a task through all its states."""
        if not run.asked.wait(self._times.provision_s):
            set_status(task, "PENDING")
            publish_task(task)
            run.asked.wait(self._times.pull_s + self._faults.boot_delay_s)
        if self._closing.is_set():
            return
        status = None
        container = containers.container_of(self._services, task.task_definition_arn)
        if not run.asked.is_set():
            if self._faults.lacks_image():
                self.end(task, "TaskFailedToStart", _IMAGE_ERROR.format(container["image"]))
            elif self._launch(task, container, run):
                set_status(task, "RUNNING")
                publish_task(task)
        if run.process is not None:
            status = self._await_end(task, container, run)
        if self._closing.is_set():
            return
        set_status(task, "DEPROVISIONING")
        publish_task(task)
        self._closing.wait(self._times.release_s)
        set_status(task, "STOPPED", exit_code=status)
        if not self._closing.is_set():
            publish_task(task)

    def _launch(self, task: Any, container: Mapping[str, Any], run: _Run) -> bool:
        """Start the container, unless the runner is closing."""
        folder, log = self._folder / f"task-{task.id}", self._folder / f"task-{task.id}.log"
        secrets = containers.secret_variables(self._services, container)
        variables = {
            "REDIS_HOST": task.local_address,
            "REDIS_PLAIN_PORT": str(SERVER_PORT),
            "REDIS_DIR": str(folder),
            **self._variables,
        }
        with self._lock:
            if self._closing.is_set():
                return False
            run.process = containers.launch(container, secrets, variables, folder=folder, log=log)
            if pem := secrets.get("REDIS_TLS_PEM"):
                ports = (task.local_address, REDIS_PORT), (task.local_address, SERVER_PORT)
                run.front = TlsFront(*ports, pem, log)
                run.front.open()
        return True

    def _await_end(self, task: Any, container: Mapping[str, Any], run: _Run) -> int | None:
        """Wait until the container ends, by itself or asked to, and return its exit status."""
        process = run.process
        assert process is not None
        while process.poll() is None and not run.asked.wait(_POLL_S):
            pass
        if not run.asked.is_set():
            _LOG.warning("task %s ended with %s; see %s", task.id, process.returncode, self._folder)
            self.end(task, "EssentialContainerExited", "Essential container in task exited")
        grace_s = float(container.get("stopTimeout", _DEFAULT_STOP_TIMEOUT_S))
        self._free(run, grace_s=grace_s if run.grace_s is None else min(grace_s, run.grace_s))
        return process.returncode

    def _free(self, run: _Run, *, grace_s: float) -> None:
        """Stop a run's process, then its front."""
        if run.process is not None:
            processes.stop(run.process, grace_s=grace_s)
        with self._lock:
            if run.front is not None:
                run.front.close()
                run.front = None
