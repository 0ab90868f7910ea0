"""Benchmarks that users start on the page, one at a time. A running benchmark ends with the server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burstcache.core.errors import BurstcacheError
from burstcache_local.machines import processes

PROJECT = Path(__file__).parents[2]  # only a clone has the benchmarks
TABLE, PICTURE = "table.json", "picture.png"
_OUTPUT = "output.txt"
_STEP = re.compile(r"^(\d+)/(\d+) (.+)$", re.M)
_LAST_LINES = 12  # lines of a failed benchmark's output to show
_END_LIMIT_S = 15.0  # time for an interrupted benchmark to stop its child processes


class BenchmarkRunningError(BurstcacheError):
    """A benchmark is already running."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A benchmark that the page offers."""

    name: str  # the benchmark's module in `benchmarks`
    title: str
    source: str
    takes: str
    options: tuple[str, ...] = ()


OFFERS = (
    Offer("state_operations", "Kumar's first case study: 1,000 strings", "Kumar 2022, tables 2 and 3", "two minutes"),
    Offer(
        "state_reaction", "Kumar's database, from sleep to work", "Kumar 2022, sections 6.1 and 6.2", "three minutes"
    ),
    Offer(
        "state_students",
        "Kumar's second case study: a student is kept while the database sleeps",
        "Kumar 2022, section 6.2",
        "five minutes",
    ),
    Offer("results_places", "Rosa's thumbnails from each place", "Rosa 2022, tables 5.1 to 5.3", "half a minute"),
    Offer("results_load", "Rosa's load on the thumbnails", "Rosa 2022, figures 5.2 to 5.5", "two minutes"),
)


@dataclass(slots=True)
class Run:
    """A benchmark's latest run."""

    process: subprocess.Popen[bytes]
    folder: Path  # contains the output, and at the end the table and picture
    began_ms: int
    is_cancelled: bool = False

    @property
    def phase(self) -> str:
        """`running`, `done`, `failed` or `cancelled`. A finished run without a table and a picture has failed."""
        if self.process.poll() is None:
            return "running"
        if self.is_cancelled:
            return "cancelled"
        is_whole = self.process.returncode == 0 and all((self.folder / name).exists() for name in (TABLE, PICTURE))
        return "done" if is_whole else "failed"

    def fields(self) -> dict[str, Any]:
        """Return the run's fields for the page."""
        phase = self.phase
        fields: dict[str, Any] = {"phase": phase, "beganMs": self.began_ms}
        if phase == "done":
            return fields | {"table": json.loads((self.folder / TABLE).read_text("utf-8"))}
        output = (self.folder / _OUTPUT).read_text(errors="replace")
        if phase == "running":
            done, steps, step = next(reversed(_STEP.findall(output)), (0, 0, "starting"))
            return fields | {"done": int(done), "steps": int(steps), "what": step}
        if phase == "failed":
            lines = _STEP.sub("", output).split("\n")
            last = [line for line in lines if line.strip()][-_LAST_LINES:]
            return fields | {"exitCode": self.process.returncode, "lines": last}
        return fields


class Benchmarks:
    """The benchmarks in a clone of the repository, and their latest runs."""

    def __init__(self, offers: Sequence[Offer] = OFFERS, project: Path = PROJECT) -> None:
        """Start without runs. If the project has no folder `benchmarks`, there are no benchmarks."""
        self.offers = tuple(offers) if (project / "benchmarks").is_dir() else ()
        self.token = secrets.token_urlsafe()  # only this server's pages can read the token
        self._project = project
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._folders = contextlib.ExitStack()

    @property
    def process_ids(self) -> dict[str, int]:
        """Process id of each benchmark's latest run. The process leads its own process group."""
        return {name: run.process.pid for name, run in self._runs.items()}

    def fields(self) -> list[dict[str, Any]]:
        """Return the fields of all offers and the latest runs for the page."""
        return [
            {"name": offer.name, "title": offer.title, "source": offer.source, "takes": offer.takes}
            | {"run": run.fields() if (run := self._runs.get(offer.name)) else None}
            for offer in self.offers
        ]

    def picture(self, name: str) -> Path | None:
        """Return the latest run's picture, or None if there is no picture."""
        run = self._runs.get(name)
        return run.folder / PICTURE if run and run.phase == "done" else None

    def start(self, name: str) -> None:
        """Start a benchmark.

        Raises:
            LookupError: There is no such benchmark.
            BenchmarkRunningError: A benchmark is already running.
        """
        offer = next((each for each in self.offers if each.name == name), None)
        if offer is None:
            raise LookupError(name)
        with self._lock:
            if self._running() is not None:
                raise BenchmarkRunningError("a benchmark is already running: wait for its end, or cancel it")
            folder = Path(self._folders.enter_context(tempfile.TemporaryDirectory(prefix="burstcache-benchmark-")))
            command = [sys.executable, "-m", f"benchmarks.{offer.name}", "--page", str(folder), *offer.options]
            process = processes.start(command, env=os.environ, log=folder / _OUTPUT, cwd=self._project)
            self._runs[name] = Run(process, folder, time.time_ns() // 1_000_000)

    def cancel(self) -> None:
        """Interrupt the running benchmark if there is one, and wait until it has stopped its child processes."""
        with self._lock:
            if (run := self._running()) is None:
                return
            run.is_cancelled = True
            run.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(_END_LIMIT_S)
            processes.stop(run.process, grace_s=0)

    def close(self) -> None:
        """Cancel the running benchmark, and remove the folders of all runs."""
        self.cancel()
        self._folders.close()

    def _running(self) -> Run | None:
        return next((run for run in self._runs.values() if run.phase == "running"), None)
