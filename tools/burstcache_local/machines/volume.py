"""The volume of an instance with a state database. It survives stops, and has the program that prepares it.

A log of writes (`aof`) is on a volume of its own, which survives the instance. Its device is a file, with a folder
beside it as its file system, and stand-ins for `mount` and the like work on both.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_PROGRAMS = {"rdb": "program", "aof": "volume"}  # persistence → the program's name among the stack's parameters
_COMMANDS = {
    "blkid": 'test -s "$2" || exit 2',
    "mkfs.ext4": 'mkdir "$4.files" && echo formatted > "$4"',
    "mount": 'rmdir "$4" && ln -s "$3.files" "$4"',
    "mountpoint": 'test -L "$2"',
    "resize2fs": "true",
}


class StateVolume:
    """One instance's volume, set up as on AWS (`instance/set_up_redis.sh`)."""

    def __init__(self, instance_id: str, tags: Mapping[str, str], folder: Path) -> None:
        self._tags = tags
        self._folder = folder / f"{instance_id}-volume"
        self._folder.mkdir(exist_ok=True)
        self._socket = Path(tempfile.gettempdir()) / f"{instance_id}.sock"  # socket paths must be short
        self._mark, self._program = self._folder / "restored", self._folder / "burstcache-state"
        self._keeper = self._folder / "burstcache-keeper"
        self._instance_id, self._point = instance_id, self._folder / "volume"
        self._devices, self._commands = folder / "devices", folder / "commands"

    @property
    def is_saved(self) -> bool:
        """Whether snapshots go to S3."""
        return self._tags["burstcache-state"] == "rdb"

    @property
    def is_logged(self) -> bool:
        """Whether there is a volume for the log of writes."""
        return self._tags["burstcache-state"] == "aof"

    @property
    def program(self) -> str:
        """The name of the program that runs before the server starts. Empty: none."""
        return _PROGRAMS.get(self._tags["burstcache-state"], "")

    def boot(self) -> None:
        """Remove the previous boot's marker and mount, so that this boot prepares the database again."""
        self._mark.unlink(missing_ok=True)
        self._point.unlink(missing_ok=True)
        if self.is_logged:
            self._devices.mkdir(exist_ok=True)
            volume = self._tags["burstcache-state-volume"].replace("-", "")
            (self._devices / f"nvme-Amazon_Elastic_Block_Store_{volume}").touch()
            self._commands.mkdir(exist_ok=True)
            for name, body in _COMMANDS.items():
                new = self._commands / f"{self._instance_id}-{name}"
                new.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
                new.chmod(0o755)
                new.replace(self._commands / name)  # instances boot at once

    def install(self, program: str, *, keeper_password: str) -> None:
        """Install the program that prepares the volume, with a Redis password for saves."""
        _, _, lines = program.partition("\n")
        self._program.write_text(f"#!{sys.executable}\n{lines}", "utf-8")
        self._program.chmod(0o755)
        self._keeper.touch(0o600)
        self._keeper.write_text(keeper_password)

    def server_options(self) -> list[str]:
        """Return the server's additional options for a state database."""
        folder, append = (self._point / "redis", "yes") if self.is_logged else (self._folder, "no")
        options = ["--dir", str(folder), "--appendonly", append, "--appendfsync", "everysec"]
        return [*options, "--unixsocket", str(self._socket)]

    @property
    def preparation(self) -> list[str]:
        """The command line that prepares the volume before the server starts."""
        return self.command("restore") if self.is_saved else self.command()

    def command(self, *arguments: str) -> list[str]:
        """Return a command line of the volume's program."""
        return [str(self._program), *arguments]

    def variables(self) -> dict[str, str]:
        """Return environment variables for the volume's program and the one that announces."""
        if self.is_logged:
            return {
                "STATE_INSTANCE": self._instance_id,
                "STATE_POINT": str(self._point),
                "STATE_DEVICES": str(self._devices),
                "PATH": os.pathsep.join([str(self._commands), os.environ.get("PATH", "")]),
            }
        if not self.is_saved:
            return {}
        return {
            "STATE_BUCKET": self._tags["burstcache-state-bucket"],
            "STATE_DIR": str(self._folder),
            "STATE_SOCKET": str(self._socket),
            "STATE_MARK": str(self._mark),
            "STATE_PROGRAM": str(self._program),
            "STATE_KEEPER": str(self._keeper),
        }

    def close(self) -> None:
        """Remove the socket, which is outside the volume."""
        self._socket.unlink(missing_ok=True)
