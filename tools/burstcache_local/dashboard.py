"""The page that shows a local run, started and ended with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from burstcache_local.machines import processes

_START_LIMIT_S = 60.0  # a second or two on an idle machine
_END_LIMIT_S = 30.0  # a benchmark that the page has started takes half of that at the most


class Dashboard:
    """Serves the page, if a port was given: a process of its own, which reads what any command reads."""

    def __init__(self, port: int | None, state_dir: Path, *, log: Path) -> None:
        """Serve nothing yet.

        Args:
            port: Of this machine; None for no page.
            state_dir: Where the run describes itself.
            log: What the page's server prints.
        """
        self._port, self._state_dir, self._log = port, state_dir.resolve(), log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it; return its address, or why there is none."""
        if self._port is None:
            return ""
        self._log.unlink(missing_ok=True)
        words = ["--port", str(self._port), "--state-dir", str(self._state_dir)]
        command = [sys.executable, "-m", "burstcache_cli.cli", "dashboard", *words]
        self._process = processes.start(command, env=os.environ, log=self._log)
        end_s = time.monotonic() + _START_LIMIT_S
        while self._process.poll() is None and time.monotonic() < end_s:
            said = self._log.read_text("utf-8")
            if said.startswith("http://") and said.endswith("\n"):
                return said.partition(" ")[0]
            time.sleep(0.05)
        return f"none: {' '.join(self._log.read_text('utf-8').split()) or 'it does not start'}"

    def stop(self) -> None:
        """End it; a benchmark that it runs gets the time to stop what it has started."""
        if self._process:
            processes.stop(self._process, grace_s=_END_LIMIT_S)
