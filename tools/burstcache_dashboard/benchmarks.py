"""Benchmarks that the page starts: each is a process of its own, one at a time, which ends with the server."""

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

PROJECT = Path(__file__).parents[2]  # a clone has the benchmarks; what is installed has none
TABLE, PICTURE = "table.json", "picture.png"
_OUTPUT = "output.txt"
_STEP = re.compile(r"^(\d+)/(\d+) (.+)$", re.M)
_LAST_LINES = 12  # of a benchmark that has failed
_END_LIMIT_S = 15.0  # until a benchmark that is interrupted has stopped what it had started


class BenchmarkRunningError(BurstcacheError):
    """One runs already."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A benchmark that the page offers."""

    name: str  # of its module in `benchmarks`
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
    """The newest run of a benchmark."""

    process: subprocess.Popen[bytes]
    folder: Path  # with what it prints, and at the end its table and its picture
    began_ms: int
    is_cancelled: bool = False

    @property
    def phase(self) -> str:
        """`running`, `done`, `failed` or `cancelled`; one that leaves no table has failed whatever its exit code."""
        if self.process.poll() is None:
            return "running"
        if self.is_cancelled:
            return "cancelled"
        is_whole = self.process.returncode == 0 and all((self.folder / name).exists() for name in (TABLE, PICTURE))
        return "done" if is_whole else "failed"

    def fields(self) -> dict[str, Any]:
        """Return it as the page shows it."""
        phase = self.phase
        shown: dict[str, Any] = {"phase": phase, "beganMs": self.began_ms}
        if phase == "done":
            return shown | {"table": json.loads((self.folder / TABLE).read_text("utf-8"))}
        output = (self.folder / _OUTPUT).read_text(errors="replace")
        if phase == "running":
            done, steps, what = next(reversed(_STEP.findall(output)), (0, 0, "starting"))
            return shown | {"done": int(done), "steps": int(steps), "what": what}
        if phase == "failed":
            lines = _STEP.sub("", output).split("\n")
            last = [line for line in lines if line.strip()][-_LAST_LINES:]
            return shown | {"exitCode": self.process.returncode, "lines": last}
        return shown


class Benchmarks:
    """Starts the benchmarks of a clone."""

    def __init__(self, offers: Sequence[Offer] = OFFERS, project: Path = PROJECT) -> None:
        """Have run nothing yet; a project without the folder `benchmarks` has nothing to offer."""
        self.offers = tuple(offers) if (project / "benchmarks").is_dir() else ()
        self.token = secrets.token_urlsafe()  # which only a page of this server has read
        self._project = project
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._folders = contextlib.ExitStack()

    @property
    def process_ids(self) -> dict[str, int]:
        """The process of each newest run, by benchmark; it leads a group of its own."""
        return {name: run.process.pid for name, run in self._runs.items()}

    def fields(self) -> list[dict[str, Any]]:
        """Return all offers, with their newest runs, as the page shows them."""
        return [
            {"name": offer.name, "title": offer.title, "source": offer.source, "takes": offer.takes}
            | {"run": run.fields() if (run := self._runs.get(offer.name)) else None}
            for offer in self.offers
        ]

    def picture(self, name: str) -> Path | None:
        """Return the picture of the newest run; None if it has left none."""
        run = self._runs.get(name)
        return run.folder / PICTURE if run and run.phase == "done" else None

    def start(self, name: str) -> None:
        """Start a benchmark.

        Raises:
            LookupError: It is not offered.
            BenchmarkRunningError: One runs already.
        """
        offer = next((each for each in self.offers if each.name == name), None)
        if offer is None:
            raise LookupError(name)
        with self._lock:
            if self._running() is not None:
                raise BenchmarkRunningError("a benchmark runs already: wait for its end, or cancel it")
            folder = Path(self._folders.enter_context(tempfile.TemporaryDirectory(prefix="burstcache-benchmark-")))
            command = [sys.executable, "-m", f"benchmarks.{offer.name}", "--page", str(folder), *offer.options]
            process = processes.start(command, env=os.environ, log=folder / _OUTPUT, cwd=self._project)
            self._runs[name] = Run(process, folder, time.time_ns() // 1_000_000)

    def cancel(self) -> None:
        """End the benchmark that runs, if one does, and wait until it has stopped what it had started."""
        with self._lock:
            if (run := self._running()) is None:
                return
            run.is_cancelled = True
            run.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(_END_LIMIT_S)
            processes.stop(run.process, grace_s=0)

    def close(self) -> None:
        """End what runs, and remove what all runs have left."""
        self.cancel()
        self._folders.close()

    def _running(self) -> Run | None:
        return next((run for run in self._runs.values() if run.phase == "running"), None)
