"""A log follower, which prints the logs of functions, nodes and the relay to the console."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

_POLL_S = 0.3
_MADE_UP = re.compile(r".*-(\w+)-[0-9A-F]{12}")  # physical id from `template/names.py`, shown as logical id


class LogFollower:
    """A thread that prints lines appended to a folder's log files, each prefixed with the file's name."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._offsets = folder, dict[Path, int]()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)

    def start(self) -> None:
        """Start printing from the beginning of each file."""
        self._thread.start()

    def stop(self) -> None:
        """Print the remaining lines and stop."""
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
            label = _MADE_UP.sub(r"\1", path.stem)
            for line in complete.decode(errors="replace").splitlines():
                print(f"{label:>24} | {line}", file=sys.stderr)
