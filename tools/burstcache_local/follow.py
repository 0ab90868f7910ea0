"""The logs of functions, nodes and relay on the console."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

_POLL_S = 0.3


class LogFollower:
    """Prints what is appended to the log files of a folder, each line with its file's name."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._offsets = folder, dict[Path, int]()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)

    def start(self) -> None:
        """Print everything written from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Print the rest and stop."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_POLL_S):
            self._print_new()
        self._print_new()

    def _print_new(self) -> None:
        for path in sorted(self._folder.glob("*.log")):
            with path.open("rb") as log:
                log.seek(self._offsets.get(path, 0))
                complete, newline, _ = log.read().rpartition(b"\n")
            self._offsets[path] = self._offsets.get(path, 0) + len(complete) + len(newline)
            for line in complete.decode(errors="replace").splitlines():
                print(f"{path.stem:>24} | {line}", file=sys.stderr)
