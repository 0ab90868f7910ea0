"""The state file that lets other commands find a running local cloud."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

STATE_DIR = Path(".burstcache")
_NAME = "local.json"


@dataclass(frozen=True, slots=True)
class RunningCloud:
    """A local cloud as recorded in the state file."""

    pid: int
    started: str  # start time [ticks since boot], to detect a reused pid
    front_url: str
    endpoint_url: str
    lambda_endpoint_url: str
    stack_name: str
    bucket_name: str
    region: str
    log_dir: str
    outputs: dict[str, str]
    variables: dict[str, str]  # for the cloud's clients
    sam_variables: dict[str, dict[str, str]]  # for the cloud's functions, in SAM CLI's format

    @property
    def is_alive(self) -> bool:
        """Whether the cloud's process is still running."""
        return start_of(self.pid) == self.started


def start_of(pid: int) -> str:
    """Return a process's start time [ticks since boot], or an empty string if it is a zombie or does not exist."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def read(folder: Path = STATE_DIR) -> RunningCloud | None:
    """Return the local cloud that runs from this folder, or None if there is none."""
    try:
        cloud = RunningCloud(**json.loads((folder / _NAME).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return cloud if cloud.is_alive else None


def write(cloud: RunningCloud, folder: Path) -> None:
    """Write the state file atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"{_NAME}.{os.getpid()}"
    scratch.write_text(json.dumps(asdict(cloud), indent=2) + "\n")
    scratch.replace(folder / _NAME)


def remove(folder: Path) -> None:
    """Remove the state file."""
    (folder / _NAME).unlink(missing_ok=True)
