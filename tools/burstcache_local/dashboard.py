"""The dashboard process that starts and stops with a local run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from burstcache_local.machines import processes

_START_LIMIT_S = 60.0  # 1 to 2 s on an idle machine
_END_LIMIT_S = 30.0  # a benchmark started on the dashboard cleans up in at most half of this time


class Dashboard:
    """A dashboard server in its own process, if a port is configured. The server reads the run's state file."""

    def __init__(self, port: int | None, state_dir: Path, *, log: Path) -> None:
        """Configure the dashboard without starting it.

        Args:
            port: Port on this machine, or None to disable the dashboard.
            state_dir: Folder of the run's state file.
            log: Log file of the dashboard's server.
        """
        self._port, self._state_dir, self._log = port, state_dir.resolve(), log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start the dashboard, and return its address or the reason why it did not start."""
        if self._port is None:
            return ""
        self._log.unlink(missing_ok=True)
        arguments = ["--port", str(self._port), "--state-dir", str(self._state_dir)]
        command = [sys.executable, "-m", "burstcache_cli.cli", "dashboard", *arguments]
        self._process = processes.start(command, env=os.environ, log=self._log)
        deadline_s = time.monotonic() + _START_LIMIT_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            output = self._log.read_text("utf-8")
            if output.startswith("http://") and output.endswith("\n"):
                return output.partition(" ")[0]
            time.sleep(0.05)
        return f"none: {' '.join(self._log.read_text('utf-8').split()) or 'it does not start'}"

    def stop(self) -> None:
        """Stop the dashboard. A running benchmark gets time to clean up."""
        if self._process:
            processes.stop(self._process, grace_s=_END_LIMIT_S)
