"""Tasks started by RunTask, run as local processes. moto has the tasks' records, a runner drives their states.

A task gets a loopback address of its own. Its server has no TLS, because Redis wheels are built without it, so a front
terminates TLS on the task's port. Each container is a process. The containers' volume is a folder, which goes with the
task.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import subprocess
import tempfile
import threading
import time
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
_CANNOT_START = "TaskFailedToStart"
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
    kill_at_s: float | None = None  # None: after each container's StopTimeout
    started: list[tuple[Mapping[str, Any], subprocess.Popen[bytes]]] = field(default_factory=list)  # containers
    front: TlsFront | None = None
    volume: Path | None = None  # outside the run's folder, because the paths of sockets must be short


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
                self._free(run, kill_at_s=time.monotonic() + _CLOSING_GRACE_S)

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
        threading.Thread(target=self._drive_until_closed, args=(task, run), name=f"task {task.id}", daemon=True).start()

    def end(self, task: Any, code: str, reason: str, notice_s: float | None = None) -> None:
        """Ask a task to stop, unless it was asked before. After a notice [s] its containers are killed."""
        run = self._runs.get(task.task_arn)
        if run is None or run.asked.is_set():
            return
        run.code, run.reason = code, reason
        run.kill_at_s = None if notice_s is None else time.monotonic() + notice_s
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

    def _drive_until_closed(self, task: Any, run: _Run) -> None:
        """Drive a task. The cloud may close during a call, which then fails."""
        try:
            self._drive(task, run)
        except Exception:
            if not self._closing.is_set():
                raise

    def _drive(self, task: Any, run: _Run) -> None:
        """Take a task through all its states."""
        if not run.asked.wait(self._times.provision_s):
            set_status(task, "PENDING")
            publish_task(task)
            run.asked.wait(self._times.pull_s + self._faults.boot_delay_s)
        if self._closing.is_set():
            return
        status = None
        if not run.asked.is_set():
            try:
                self._start(task, run)
            except Exception as error:  # whatever it is, ECS would not leave the task pending for ever
                if self._closing.is_set():
                    raise
                _LOG.exception("task %s cannot start", task.id)
                self.end(task, _CANNOT_START, f"{type(error).__name__}: {error}")
        if run.started:
            status = self._await_end(task, run)
        if self._closing.is_set():
            return
        set_status(task, "DEPROVISIONING")
        publish_task(task)
        self._closing.wait(self._times.release_s)
        set_status(task, "STOPPED", exit_code=status)
        if not self._closing.is_set():
            publish_task(task)

    def _start(self, task: Any, run: _Run) -> None:
        definition = containers.definition_of(self._services, task.task_definition_arn)
        if self._faults.lacks_image():
            self.end(task, _CANNOT_START, _IMAGE_ERROR.format(definition.containers[0]["image"]))
        elif self._launch(task, definition, run):
            set_status(task, "RUNNING")
            publish_task(task)

    def _launch(self, task: Any, definition: containers.Definition, run: _Run) -> bool:
        """Start the containers, unless the runner is closing."""
        folder, log = self._folder / f"task-{task.id}", self._folder / f"task-{task.id}.log"
        secrets = [containers.secret_variables(self._services, each) for each in definition.containers]
        variables = {
            "REDIS_HOST": task.local_address,
            "REDIS_PLAIN_PORT": str(SERVER_PORT),
            "REDIS_DIR": str(folder),
            **self._variables_of(definition.role),
        }
        with self._lock:
            if self._closing.is_set():
                return False
            if definition.has_volume:
                run.volume = Path(tempfile.mkdtemp(prefix="task-"))
                variables["STATE_VOLUME"] = str(run.volume)
            for container, own in zip(definition.containers, secrets, strict=True):
                more = {**_overrides(task, container["name"]), **variables, **self._variables}
                run.started.append((container, containers.launch(container, own, more, folder=folder, log=log)))
                if pem := own.get("REDIS_TLS_PEM"):
                    ports = (task.local_address, REDIS_PORT), (task.local_address, SERVER_PORT)
                    run.front = TlsFront(*ports, pem, log)
                    run.front.open()
        return True

    def _variables_of(self, role: str) -> dict[str, str]:
        """Return the variables with which a task calls AWS as its role, none without a role."""
        if not role:
            return {}
        return {
            "AWS_ACCESS_KEY_ID": role,  # identifies the caller
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_ENDPOINT_URL": self._services.cloud_url,
            "AWS_USE_DUALSTACK_ENDPOINT": "false",  # botocore refuses dualstack together with a custom endpoint
        }

    def _await_end(self, task: Any, run: _Run) -> int | None:
        """Wait until an essential container ends, by itself or asked to, and return the status of the first one."""
        essential = [process for container, process in run.started if container.get("essential", True)]
        while all(process.poll() is None for process in essential) and not run.asked.wait(_POLL_S):
            pass
        if not run.asked.is_set():
            ended = {container["name"]: process.returncode for container, process in run.started}
            _LOG.warning("a container of task %s ended: %s; see %s", task.id, ended, self._folder)
            self.end(task, "EssentialContainerExited", "Essential container in task exited")
        self._free(run, kill_at_s=run.kill_at_s)
        return run.started[0][1].returncode

    def _free(self, run: _Run, *, kill_at_s: float | None) -> None:
        """Stop a run's containers in the reverse order of their start, then its front. Remove its volume."""
        for container, process in reversed(run.started):
            grace_s = float(container.get("stopTimeout", _DEFAULT_STOP_TIMEOUT_S))
            if kill_at_s is not None:
                grace_s = min(grace_s, max(0.0, kill_at_s - time.monotonic()))
            processes.stop(process, grace_s=grace_s)
        with self._lock:
            if run.front is not None:
                run.front.close()
                run.front = None
        if run.volume is not None:
            shutil.rmtree(run.volume, ignore_errors=True)


def _overrides(task: Any, container: str) -> dict[str, str]:
    """Return the variables that RunTask gave to a container."""
    overrides = task.overrides.get("containerOverrides", ())
    environments = [each.get("environment", ()) for each in overrides if each["name"] == container]
    return {each["name"]: each["value"] for environment in environments for each in environment}
