"""Containers of ECS tasks, run as local processes with the container's command, and secrets as variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from burstcache_local.machines import processes
from burstcache_local.moto.services import Services

PATH = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])


def has_program(name: str) -> bool:
    """Return whether a container finds a program."""
    return shutil.which(name, path=PATH) is not None


@dataclass(frozen=True, slots=True)
class Definition:
    """A task definition: its containers in the order of their start, and the name of its role, empty without one."""

    containers: tuple[dict[str, Any], ...]
    role: str
    has_volume: bool


def definition_of(services: Services, arn: str) -> Definition:
    """Return a task definition, given its ARN."""
    found = services.client("ecs").describe_task_definition(taskDefinition=arn)["taskDefinition"]
    by_name = {each["name"]: dict(each) for each in found["containerDefinitions"]}
    needs = {
        name: {need["containerName"] for need in container.get("dependsOn", [])} for name, container in by_name.items()
    }
    ordered = tuple(by_name[name] for name in TopologicalSorter(needs).static_order())
    return Definition(ordered, found.get("taskRoleArn", "").rpartition("/")[2], bool(found.get("volumes")))


def secret_variables(services: Services, container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables whose values ECS takes from Systems Manager."""
    return {each["name"]: _secret(services, each["valueFrom"]) for each in container.get("secrets", [])}


def launch(
    container: Mapping[str, Any], secrets: Mapping[str, str], variables: Mapping[str, str], *, folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start a container's command in a folder of its own.

    Args:
        container: The container's definition.
        secrets: Values from `secret_variables`.
        variables: Further variables, which replace those of the definition.
        folder: The working directory, which is created if it is missing.
        log: The process's log file.

    Raises:
        OSError: The program cannot be started.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    environment = {each["name"]: str(each["value"]) for each in container.get("environment", [])}
    command = [*container.get("entryPoint", []), *container.get("command", [])]
    return processes.start(command, env={**environment, **secrets, "PATH": PATH, **variables}, cwd=folder, log=log)


def _secret(services: Services, arn: str) -> str:
    """Return the value of a Systems Manager parameter."""
    name = arn.partition(":parameter")[2]
    parameter = services.client("ssm").get_parameter(Name=name, WithDecryption=True)["Parameter"]
    return str(parameter["Value"])
