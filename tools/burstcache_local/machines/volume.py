"""The volume of an instance that has a database of state: what outlives its stops, and what restores and saves it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path


class StateVolume:
    """One instance's: as its user data sets it up on AWS (`template.yaml`)."""

    def __init__(self, instance_id: str, tags: Mapping[str, str], folder: Path) -> None:
        self._tags = tags
        self._folder = folder / f"{instance_id}-volume"
        self._folder.mkdir(exist_ok=True)
        self._socket = Path(tempfile.gettempdir()) / f"{instance_id}.sock"  # a short path, as sockets must have
        self._mark, self._program = self._folder / "restored", self._folder / "burstcache-state"
        self._keeper = self._folder / "burstcache-keeper"

    @property
    def is_saved(self) -> bool:
        """Whether snapshots go to S3."""
        return self._tags["burstcache-state"] == "rdb"

    def boot(self) -> None:
        """Begin a boot: what was restored in the one before is restored again."""
        self._mark.unlink(missing_ok=True)

    def install(self, program: str, *, keeper_password: str) -> None:
        """Put the program that restores and saves onto the volume, and the password that it logs in with."""
        _, _, lines = program.partition("\n")
        self._program.write_text(f"#!{sys.executable}\n{lines}", "utf-8")
        self._program.chmod(0o755)
        self._keeper.touch(0o600)
        self._keeper.write_text(keeper_password)

    def server_options(self) -> list[str]:
        """Return the options of the server in addition to those of any."""
        append = "yes" if self._tags["burstcache-state"] == "aof" else "no"
        kept = ["--dir", str(self._folder), "--appendonly", append, "--appendfsync", "everysec"]
        return [*kept, "--unixsocket", str(self._socket)]

    def command(self, *words: str) -> list[str]:
        """Return how the program is called."""
        return [str(self._program), *words]

    def variables(self) -> dict[str, str]:
        """Return the environment of the program, and what the node's own program gets of it."""
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
        """Remove what is outside the volume."""
        self._socket.unlink(missing_ok=True)
