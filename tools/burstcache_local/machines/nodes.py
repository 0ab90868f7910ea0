"""Nodes: EC2 instances emulated by real Redis servers. moto has the instances' records, an agent drives their states.

An instance listens on its private address, which is a loopback address here. From the user data for AWS, the agent
reads the instance's users and certificate, and whether the first boot ends with a shutdown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from burstcache_local.errors import LocalCloudError
from burstcache_local.faults import Faults
from burstcache_local.machines import processes
from burstcache_local.machines.redis_binary import redis_binary
from burstcache_local.machines.tls_front import TlsFront
from burstcache_local.machines.volume import StateVolume
from burstcache_local.moto.ec2_states import publish_state, set_state
from burstcache_local.moto.services import Services

REDIS_PORT = 6379
SERVER_PORT = 6380  # of the plaintext server behind the TLS front; on AWS, Redis listens only on REDIS_PORT
_MEMORY_SHARE = 0.75  # Redis's share of the instance's memory, as in `instance/set_up_redis.sh`
_READY_LIMIT_S = 10.0
_STOP_GRACE_S = 5.0
_RESTART_S = 1.0  # RestartSec of the services in the template's user data
_DRAIN_S = 3.0  # ExecStop of the server's service
_FULL_DEVICE = Path("/dev/full")  # every write fails with ENOSPC
_SAVE_LIMIT_S = 80.0  # ExecStop of a state database's service


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """Durations of an instance's state transitions."""

    boot_s: float = 1.0
    stop_s: float = 0.5


class NodeAgent:
    """The agent that runs the servers of one cloud's instances in moto."""

    def __init__(self, services: Services, times: NodeTimes, logs: Path, faults: Faults | None = None) -> None:
        self._services, self._times, self._logs, self._binary = services, times, logs, redis_binary()
        self._faults = faults or Faults()
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}  # by instance and program
        self._fronts: dict[str, TlsFront] = {}  # by instance
        self._volumes: dict[str, StateVolume] = {}  # by instance
        self._lock, self._closing = threading.RLock(), threading.Event()

    def start(self) -> None:
        """Start managing the instances."""
        self._services.instances = self

    def stop(self) -> None:
        """Stop all servers. The instances keep their states."""
        self._services.instances = None
        self._closing.set()
        with self._lock:
            for process in self._processes.values():
                processes.stop(process, grace_s=_STOP_GRACE_S)
            while self._fronts:  # popped, so that `_end` in another thread does not also close the front
                self._fronts.popitem()[1].close()
        for volume in self._volumes.values():
            volume.close()

    def created(self, instance: Any) -> None:
        """Handle the launch of an instance. If the user data ends the first boot with a shutdown, skip to `stopped`."""
        if re.search(r"^\s*(shutdown|poweroff)\b", _user_data(instance), re.MULTILINE):
            set_state(instance, "stopped")
        else:
            self.enter(instance, "pending")

    def enter(self, instance: Any, state: str) -> None:
        """Enter a transient state, and start a thread that leaves the state after its duration."""
        set_state(instance, state)
        leave: Callable[[Any], None] = {
            "pending": self._boot,
            "stopping": lambda instance: self._halt(instance, "stopped"),
            "shutting-down": lambda instance: self._halt(instance, "terminated"),
        }[state]
        threading.Thread(target=leave, args=(instance,), name=f"{state} {instance.id}", daemon=True).start()

    def _boot(self, instance: Any) -> None:
        """Boot the instance, and restart its server whenever the server exits, as systemd does on AWS."""
        if self._closing.wait(self._times.boot_s):
            return
        volume = self._volume(instance)  # created before other threads use it
        if program := _heredoc(instance, "ANNOUNCE"):
            announcing = threading.Thread(target=self._announce, args=(instance, program), daemon=True)
            announcing.start()
        if self._faults.is_silent():
            while not self._faults.nodes_answer.wait(_RESTART_S) and not self._closing.is_set():
                pass
        certificate = self._certificate(instance)
        port = SERVER_PORT if certificate else REDIS_PORT
        command = [str(self._binary), *_redis_arguments(instance, self._services, port)]
        if volume:
            command += volume.server_options()
            volume.boot()
            if volume.program:
                secret = partial(_secret, instance, self._services, "state")
                volume.install(secret(volume.program), keeper_password=secret("keeper"))
            while volume.program and self._prepare(instance, volume) not in (0, None):
                self._closing.wait(_RESTART_S)
        while process := self._launch(instance, "redis-server", command, {}):
            _await_listener(instance.private_ip, port, process)
            if certificate:
                self._open_front(instance, certificate)
            if instance.state == "pending":
                set_state(instance, "running")
            process.wait()
            if not self._may_restart(instance, "redis-server", process):
                return

    def _open_front(self, instance: Any, certificate: str) -> None:
        """Terminate TLS in front of the server until the instance stops, even across server restarts."""
        with self._lock:
            if instance.id not in self._fronts and _is_up(instance) and not self._closing.is_set():
                address, log = instance.private_ip, self._logs / f"{instance.id}.log"
                front = TlsFront((address, REDIS_PORT), (address, SERVER_PORT), certificate, log)
                front.open()
                self._fronts[instance.id] = front

    def _certificate(self, instance: Any) -> str:
        """Return the node's key and certificate as PEM, or an empty string if the user data does not use any."""
        if not re.search(r"^burstcache-secret redis tls >", _user_data(instance), re.MULTILINE):
            return ""
        return _secret(instance, self._services, "redis", "tls")

    def _announce(self, instance: Any, program: str) -> None:
        """Run the program that announces the node. Stop the instance on success, as the systemd unit does on AWS."""
        path = self._logs / f"{instance.id}-announce.py"
        path.write_text(program, "utf-8")
        variables = self._variables(instance)
        while process := self._launch(instance, "announce", [sys.executable, str(path)], variables):
            if process.wait() == 0 and instance.state == "running":
                instance.stop()
            if not self._may_restart(instance, "announce", process):
                return

    def _may_restart(self, instance: Any, program: str, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the restart delay. Return False if the instance has stopped meanwhile, even if it runs again."""
        self._closing.wait(_RESTART_S)
        return self._processes.get((instance.id, program)) is process

    def _variables(self, instance: Any) -> dict[str, str]:
        """Return environment variables for programs on an instance."""
        variables = _environment(instance) | {
            "AWS_ACCESS_KEY_ID": instance.id,  # identifies the caller
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_ENDPOINT_URL": self._services.cloud_url,
            "AWS_USE_DUALSTACK_ENDPOINT": "false",  # botocore refuses dualstack together with a custom endpoint
            "REDIS_HOST": instance.private_ip,
            "NODE": _tags(instance)["burstcache-node"],
            "PATH": os.environ.get("PATH", ""),
        }
        volume = self._volume(instance)
        return variables | (volume.variables() if volume else {})

    def _volume(self, instance: Any) -> StateVolume | None:
        """Return an instance's volume, or None if the instance has no state database."""
        if "burstcache-state" not in (tags := _tags(instance)):
            return None
        if instance.id not in self._volumes:
            self._volumes[instance.id] = StateVolume(instance.id, tags, self._logs)
        return self._volumes[instance.id]

    def _prepare(self, instance: Any, volume: StateVolume) -> int | None:
        """Prepare the volume for the server. Return the exit status, or None if the instance is stopping."""
        process = self._launch(instance, "prepare state", volume.preparation, self._variables(instance))
        return process.wait() if process else None

    def _launch(
        self, instance: Any, program: str, command: list[str], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """Start a program, unless the instance is stopping."""
        with self._lock:
            return self._start(instance, program, command, variables) if _is_up(instance) else None

    def _start(
        self, instance: Any, program: str, command: list[str], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """Start a program, unless the agent is closing."""
        with self._lock:
            if self._closing.is_set():
                return None
            log = _FULL_DEVICE if self._faults.is_full() else self._logs / f"{instance.id}.log"
            process = processes.start(command, env=variables, log=log)
            self._processes[instance.id, program] = process
            return process

    def _halt(self, instance: Any, final: str) -> None:
        """Drain the server or save its state. Then stop the server and enter the final state."""
        for program in ("announce", "prepare state"):
            self._end(instance, program)
        if (instance.id, "redis-server") in self._processes:
            volume = self._volume(instance)
            if volume is None:
                self._closing.wait(_DRAIN_S)
            elif volume.is_saved:
                self._save_before_end(instance, volume)
        self._end(instance, "redis-server")
        self._closing.wait(self._times.stop_s)
        set_state(instance, final)
        if not self._closing.is_set():
            publish_state(instance)

    def _save_before_end(self, instance: Any, volume: StateVolume) -> None:
        """Save the database before the server stops, with retries for as long as systemd would wait."""
        give_up_s = time.monotonic() + _SAVE_LIMIT_S
        command, variables = volume.command("save", "last"), self._variables(instance)
        while time.monotonic() < give_up_s and (process := self._start(instance, "state save", command, variables)):
            if process.wait() == 0:
                return
            self._closing.wait(_RESTART_S)

    def _end(self, instance: Any, program: str) -> None:
        with self._lock:
            if process := self._processes.pop((instance.id, program), None):
                processes.stop(process, grace_s=_STOP_GRACE_S)
            if program == "redis-server" and (front := self._fronts.pop(instance.id, None)):
                front.close()


def _is_up(instance: Any) -> bool:
    return instance.state in ("pending", "running")


def _tags(instance: Any) -> dict[str, str]:
    """Return an instance's tags."""
    return {str(tag["key"]): str(tag["value"]) for tag in instance.get_tags()}


def _user_data(instance: Any) -> str:
    try:
        return base64.b64decode(instance.user_data or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return str(instance.user_data)


def _heredoc(instance: Any, mark: str) -> str:
    """Return the heredoc with this delimiter from the user data, or an empty string if there is none."""
    match = re.search(rf"<<'{mark}'\n(.*?\n){mark}\n", _user_data(instance), re.DOTALL)
    return match[1] if match else ""


def _environment(instance: Any) -> dict[str, str]:
    """Return the environment variables in the user data."""
    return dict(line.partition("=")[::2] for line in _heredoc(instance, "ENVIRONMENT").splitlines())


def _secret(instance: Any, services: Services, kind: str, name: str) -> str:
    """Return the value of a Systems Manager parameter, as the instance's program `burstcache-secret` does."""
    variables = _environment(instance)
    if not {"STACK", "CREDENTIALS_ISSUE"} <= variables.keys():
        raise LocalCloudError(f"{instance.id}: its user data has no path for {kind} {name}")
    path = f"/burstcache/{variables['STACK']}/{kind}/{variables['CREDENTIALS_ISSUE']}/{name}"
    return str(services.client("ssm").get_parameter(Name=path, WithDecryption=True)["Parameter"]["Value"])


def _redis_arguments(instance: Any, services: Services, port: int) -> list[str]:
    """Return the server's options, including users defined in the user data."""
    kind, eviction = ("state", "noeviction") if "burstcache-state" in _tags(instance) else ("redis", "allkeys-lru")
    arguments = ["--bind", instance.private_ip, "--port", str(port), "--save", "", "--appendonly", "no"]
    arguments += ["--maxmemory", f"{_memory_mb(instance.instance_type)}mb", "--maxmemory-policy", eviction]
    if users := re.search(rf"^users_of_{kind}\(\) .*?^}}$", _user_data(instance), re.MULTILINE | re.DOTALL):
        arguments += ["--user", "default", "off"]
        for name, rights in re.findall(r'\buser (\w+) on #\$\w+ ((?:.*\\\n)*[^"\n]*)', users[0]):
            digest = hashlib.sha256(_secret(instance, services, kind, name).encode()).hexdigest()
            arguments += ["--user", name, "on", f"#{digest}", *rights.replace("\\\n", " ").split()]
    return arguments


def _memory_mb(instance_type: str) -> int:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return int(INSTANCE_TYPES[instance_type]["MemoryInfo"]["SizeInMiB"] * _MEMORY_SHARE)


def _await_listener(address: str, port: int, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + _READY_LIMIT_S
    while process.poll() is None and time.monotonic() < end_s:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
