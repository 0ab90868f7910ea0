"""The volume of an instance with a state database. It survives stops, and has the program that restores and saves."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path


class StateVolume:
    """One instance's volume, set up as on AWS (`instance/set_up_redis.sh`)."""

    def __init__(self, instance_id: str, tags: Mapping[str, str], folder: Path) -> None:
        self._tags = tags
        self._folder = folder / f"{instance_id}-volume"
        self._folder.mkdir(exist_ok=True)
        self._socket = Path(tempfile.gettempdir()) / f"{instance_id}.sock"  # socket paths must be short
        self._mark, self._program = self._folder / "restored", self._folder / "burstcache-state"
        self._keeper = self._folder / "burstcache-keeper"

    @property
    def is_saved(self) -> bool:
        """Whether snapshots go to S3."""
        return self._tags["burstcache-state"] == "rdb"

    def boot(self) -> None:
        """Remove the previous restore's marker, so that this boot restores the database again."""
        self._mark.unlink(missing_ok=True)

    def install(self, program: str, *, keeper_password: str) -> None:
        """Install the program that restores and saves on the volume, with its Redis password."""
        _, _, lines = program.partition("\n")
        self._program.write_text(f"#!{sys.executable}\n{lines}", "utf-8")
        self._program.chmod(0o755)
        self._keeper.touch(0o600)
        self._keeper.write_text(keeper_password)

    def server_options(self) -> list[str]:
        """Return the server's additional options for a state database."""
        append = "yes" if self._tags["burstcache-state"] == "aof" else "no"
        options = ["--dir", str(self._folder), "--appendonly", append, "--appendfsync", "everysec"]
        return [*options, "--unixsocket", str(self._socket)]

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the program that restores and saves."""
        return [str(self._program), *arguments]

    def variables(self) -> dict[str, str]:
        """Return environment variables for the programs that restore, save and announce."""
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
