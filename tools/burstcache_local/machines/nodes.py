"""EC2 instances as real Redis servers: moto keeps the records, and this agent passes through the states as EC2 does.

An instance listens on its private address, which is a loopback address here. What it runs is read from its user data,
the same that sets it up on AWS: its users and its certificate, and whether the first boot ends in a shutdown.
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
from burstcache_local.moto.ec2_states import set_state, tell
from burstcache_local.moto.services import Services

REDIS_PORT = 6379
SERVER_PORT = 6380  # of the server itself, which has no TLS; on AWS it listens on the former port alone
_MEMORY_SHARE = 0.75  # of the instance's memory, as in the template's user data
_READY_LIMIT_S = 10.0
_STOP_GRACE_S = 5.0
_RESTART_S = 1.0  # RestartSec of the services that the template's user data sets up
_DRAIN_S = 3.0  # the ExecStop of the server's service
_FULL_DEVICE = Path("/dev/full")  # each write to it fails, for want of room
_SAVE_LIMIT_S = 80.0  # the ExecStop of a database's


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """How long an instance takes."""

    boot_s: float = 1.0
    stop_s: float = 0.5


class NodeAgent:
    """Runs the servers of one cloud's instances in moto."""

    def __init__(self, services: Services, times: NodeTimes, logs: Path, faults: Faults | None = None) -> None:
        self._services, self._times, self._logs, self._binary = services, times, logs, redis_binary()
        self._faults = faults or Faults()
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}  # by instance and program
        self._fronts: dict[str, TlsFront] = {}  # by instance
        self._volumes: dict[str, StateVolume] = {}  # by instance
        self._lock, self._closing = threading.RLock(), threading.Event()

    def start(self) -> None:
        """Take charge of the instances."""
        self._services.instances = self

    def stop(self) -> None:
        """End all servers; the instances keep the states that they have."""
        self._services.instances = None
        self._closing.set()
        with self._lock:
            for process in self._processes.values():
                processes.stop(process, grace_s=_STOP_GRACE_S)
            while self._fronts:  # a thread that halts an instance closes none a second time
                self._fronts.popitem()[1].close()
        for volume in self._volumes.values():
            volume.close()

    def created(self, instance: Any) -> None:
        """Handle a launch. An instance that shuts down at its first boot is stopped at once."""
        if re.search(r"^\s*(shutdown|poweroff)\b", _user_data(instance), re.MULTILINE):
            set_state(instance, "stopped")
        else:
            self.enter(instance, "pending")

    def enter(self, instance: Any, state: str) -> None:
        """Enter a transient state; a thread leaves it after its time."""
        set_state(instance, state)
        leave: Callable[[Any], None] = {
            "pending": self._boot,
            "stopping": lambda instance: self._halt(instance, "stopped"),
            "shutting-down": lambda instance: self._halt(instance, "terminated"),
        }[state]
        threading.Thread(target=leave, args=(instance,), name=f"{state} {instance.id}", daemon=True).start()

    def _boot(self, instance: Any) -> None:
        """Boot, and restart the server whenever it ends, as its service does on AWS."""
        if self._closing.wait(self._times.boot_s):
            return
        volume = self._volume(instance)  # before any other thread needs it
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
            if volume.is_saved:
                secret = partial(_secret, instance, self._services, "state")
                volume.install(secret("program"), keeper_password=secret("keeper"))
            while volume.is_saved and self._run(instance, volume, "restore") not in (0, None):
                self._closing.wait(_RESTART_S)
        while process := self._launch(instance, "redis-server", command, {}):
            _await_listener(instance.private_ip, port, process)
            if certificate:
                self._open_front(instance, certificate)
            if instance.state == "pending":
                set_state(instance, "running")
            process.wait()
            if not self._comes_again(instance, "redis-server", process):
                return

    def _open_front(self, instance: Any, certificate: str) -> None:
        """Speak TLS in front of the server, which may end and come again, until the instance is to stop."""
        with self._lock:
            if instance.id not in self._fronts and _is_up(instance) and not self._closing.is_set():
                address, log = instance.private_ip, self._logs / f"{instance.id}.log"
                front = TlsFront((address, REDIS_PORT), (address, SERVER_PORT), certificate, log)
                front.open()
                self._fronts[instance.id] = front

    def _certificate(self, instance: Any) -> str:
        """Return PEM of the node's key and certificate; empty if its user data reads none."""
        if not re.search(r"^secret redis tls >", _user_data(instance), re.MULTILINE):
            return ""
        return _secret(instance, self._services, "redis", "tls")

    def _announce(self, instance: Any, program: str) -> None:
        """Run the program that announces the node; its success switches the instance off, as its unit says on AWS."""
        path = self._logs / f"{instance.id}-announce.py"
        path.write_text(program, "utf-8")
        variables = self._variables(instance)
        while process := self._launch(instance, "announce", [sys.executable, str(path)], variables):
            if process.wait() == 0 and instance.state == "running":
                instance.stop()
            if not self._comes_again(instance, "announce", process):
                return

    def _comes_again(self, instance: Any, program: str, process: subprocess.Popen[bytes]) -> bool:
        """Wait until a program may be restarted; False if its instance was stopped, and may have booted anew by now."""
        self._closing.wait(_RESTART_S)
        return self._processes.get((instance.id, program)) is process

    def _variables(self, instance: Any) -> dict[str, str]:
        """Return the environment of what runs on an instance."""
        variables = dict(line.partition("=")[::2] for line in _heredoc(instance, "ENVIRONMENT").splitlines())
        variables |= {
            "AWS_ACCESS_KEY_ID": instance.id,  # so that calls show who makes them
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_ENDPOINT_URL": self._services.cloud_url,
            "AWS_USE_DUALSTACK_ENDPOINT": "false",  # botocore refuses it together with an endpoint of one's own
            "REDIS_HOST": instance.private_ip,
            "NODE": _tags(instance)["burstcache-node"],
            "PATH": os.environ.get("PATH", ""),
        }
        volume = self._volume(instance)
        return variables | (volume.variables() if volume else {})

    def _volume(self, instance: Any) -> StateVolume | None:
        """Return the volume of an instance that has a database of state."""
        if "burstcache-state" not in (tags := _tags(instance)):
            return None
        if instance.id not in self._volumes:
            self._volumes[instance.id] = StateVolume(instance.id, tags, self._logs)
        return self._volumes[instance.id]

    def _run(self, instance: Any, volume: StateVolume, *words: str) -> int | None:
        """Run the program that restores and saves a database; None if the instance is to stop."""
        process = self._launch(instance, f"state {words[0]}", volume.command(*words), self._variables(instance))
        return process.wait() if process else None

    def _launch(
        self, instance: Any, program: str, command: list[str], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """Start a program, unless the instance is to stop."""
        with self._lock:
            return self._start(instance, program, command, variables) if _is_up(instance) else None

    def _start(
        self, instance: Any, program: str, command: list[str], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """Start a program, unless the agent ends, which ends it, too."""
        with self._lock:
            if self._closing.is_set():
                return None
            log = _FULL_DEVICE if self._faults.is_full() else self._logs / f"{instance.id}.log"
            process = processes.start(command, env=variables, log=log)
            self._processes[instance.id, program] = process
            return process

    def _halt(self, instance: Any, final: str) -> None:
        """Let the server answer for some seconds more, then end it."""
        for program in ("announce", "state restore"):
            self._end(instance, program)
        if (instance.id, "redis-server") in self._processes:
            volume = self._volume(instance)
            if volume is None:
                self._closing.wait(_DRAIN_S)
            elif volume.is_saved:
                self._save_last(instance, volume)
        self._end(instance, "redis-server")
        self._closing.wait(self._times.stop_s)
        set_state(instance, final)
        if not self._closing.is_set():
            tell(instance)

    def _save_last(self, instance: Any, volume: StateVolume) -> None:
        """Have the database saved before its server ends, again and again for as long as systemd would."""
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
    """Return the tags of an instance."""
    return {str(tag["key"]): str(tag["value"]) for tag in instance.get_tags()}


def _user_data(instance: Any) -> str:
    try:
        return base64.b64decode(instance.user_data or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return str(instance.user_data)


def _heredoc(instance: Any, mark: str) -> str:
    """Return what the user data writes between two marks; empty if it has no such part."""
    found = re.search(rf"<<'{mark}'\n(.*?\n){mark}\n", _user_data(instance), re.DOTALL)
    return found[1] if found else ""


def _secret(instance: Any, services: Services, *names: str) -> str:
    """Return one of the parameters that the user data reads."""
    path = re.search(r'name = "(\S+)"\.format\(.*\n.*get_parameter\(', _user_data(instance))
    if not path:
        raise LocalCloudError(f"{instance.id}: its user data does not say where it reads {' '.join(names)}")
    name = path[1].format(*names)
    return str(services.client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def _redis_arguments(instance: Any, services: Services, port: int) -> list[str]:
    """Return the server's options, with the users that the user data names."""
    kind, eviction = ("state", "noeviction") if "burstcache-state" in _tags(instance) else ("redis", "allkeys-lru")
    arguments = ["--bind", instance.private_ip, "--port", str(port), "--save", "", "--appendonly", "no"]
    arguments += ["--maxmemory", f"{_memory_mb(instance.instance_type)}mb", "--maxmemory-policy", eviction]
    if named := re.search(rf"^users_of_{kind}\(\) .*?^}}$", _user_data(instance), re.MULTILINE | re.DOTALL):
        arguments += ["--user", "default", "off"]
        for name, rights in re.findall(r'\buser (\w+) on #\$\w+ ((?:.*\\\n)*[^"\n]*)', named[0]):
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
