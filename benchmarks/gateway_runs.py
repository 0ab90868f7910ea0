"""Run the gateway's example programs straight to S3 and through a gateway, and draw seconds and bytes of each run.

    python -m benchmarks.gateway_runs docs/images/gateway.png [--rounds 3] [--small]

A stand-in for S3 answers after 25 ms and sends 85 MB/s per connection (`benchmarks.support.delayed_s3`). Each program
of `examples/gateway/` runs three times, each time in a new process. The gateway restarts before the third run. A run
begins when all that the run before it has confirmed is older than the bound of staleness (2 s). One more run precedes
the rounds. Of each run the least disturbed round counts: the fewest seconds, the most bytes.

`make clients` installs polars and AWS's SDK for JavaScript. What is not installed is left out, and named.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.client.common import print_rows, print_table
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.delayed_s3 import DELAY_MS, MB_PER_S, DelayedS3, delayed_s3
from burstcache_sim.report.drawing import INK, LINE_COLOURS, TIER_COLOURS, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BUCKET = "bucket"
RUNS = ("run 1", "run 2", "run 3")
STRAIGHT, GATEWAY = "straight to S3", "through the gateway"
_RESTART_BEFORE = 2  # the index of the run
_PAUSE_S = 2.5  # above `max_stale_ms`, whose default is 2 s
_LIMIT_S = 120.0
_MEGABYTE = 1e6
_COLOURS = {STRAIGHT: TIER_COLOURS["S"], GATEWAY: LINE_COLOURS[0]}
_TITLE = "Example programs over an S3 that answers after 25 ms and sends 85 MB/s per connection"
_LABEL_SPACE = 1.4  # of the longest bar: how far the axis reaches, since labels are right of the bars
_EXAMPLES = PROJECT / "examples" / "gateway"
_PYTHON = PROJECT / ".venv-clients" / "bin" / "python"
_NODE_MODULES = PROJECT / "tests" / "clients" / "node" / "node_modules"
_ROWS, _LINES = 3_000_000, 1_600_000  # of the table and the list
_ROW_GROUPS, _PATHS = 8, 500
_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "AKIDBENCHMARK",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-benchmark",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program, in a process of its own."""

    seconds: float
    s3_bytes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of a program both ways."""

    program: str
    runs: dict[str, list[Run]]  # by way


class RunFailedError(Exception):
    """A program failed, or printed something else than before."""


@dataclass(frozen=True, slots=True)
class Program:
    """An example program.

    Attributes:
        command: The command, to which the bucket's name is added.
    """

    name: str
    command: tuple[str, ...]

    def run(self, endpoint: str, store: DelayedS3) -> tuple[Run, str]:
        """Run the program at an endpoint, and return the run and what it printed."""
        before = store.counts()["sent_bytes"]
        began_s = time.perf_counter()
        ran = subprocess.run(
            [*self.command, BUCKET],
            env={**os.environ, **_VARIABLES, "AWS_ENDPOINT_URL_S3": endpoint},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        seconds = time.perf_counter() - began_s
        if ran.returncode != 0:
            raise RunFailedError(f"{self.name}: {ran.stderr.strip()[-2000:]}")
        return Run(seconds, store.counts()["sent_bytes"] - before), ran.stdout


def main() -> int:
    """Run, print and draw; return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.gateway_runs", description=__doc__.splitlines()[0])
    parser.add_argument("image", type=Path, help="PNG to write")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--small", action="store_true", help="read small files")
    arguments = parser.parse_args()
    print(environment())
    with tempfile.TemporaryDirectory(prefix="gateway-runs-") as folder:
        data, work = Path(folder, "data"), Path(folder, "work")
        data.mkdir()
        work.mkdir()
        programs = _installed_programs(work)
        if not programs:
            return 0
        write_data(data, divisor=50 if arguments.small else 1)
        sizes = ", ".join(f"{path.name} {path.stat().st_size / _MEGABYTE:.0f} MB" for path in sorted(data.iterdir()))
        print(f"S3: {DELAY_MS:.0f} ms and {MB_PER_S:.0f} MB/s per connection; {sizes}\n", flush=True)
        with delayed_s3(data) as store:
            print_table(["program", "way", *RUNS], [])
            compared = []
            for program in programs:
                try:
                    compared.append(compare(program, store, work, arguments.rounds))
                except RunFailedError as error:
                    print(f"FAILED: {error}")
                    return 1
                print_rows(_rows(compared[-1]))
    arguments.image.parent.mkdir(parents=True, exist_ok=True)
    draw(compared, arguments.image)
    print(f"\n{arguments.image}: {arguments.image.stat().st_size / 1000:.0f} kB")
    return 0


def compare(program: Program, store: DelayedS3, folder: Path, rounds: int) -> Comparison:
    """Run a program both ways, in several rounds, and return the least disturbed runs.

    Raises:
        RunFailedError: The program failed, or printed something else than in its first run.
    """
    measured: dict[str, list[list[Run]]] = {STRAIGHT: [], GATEWAY: []}
    _, expected = program.run(store.url, store)  # not counted: this machine reads the program itself from its disk
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder) as disk:
            for way, endpoints in ((STRAIGHT, _straight(store)), (GATEWAY, _gateways(store, Path(disk)))):
                runs = []
                for endpoint in endpoints:
                    time.sleep(_PAUSE_S)
                    run, output = program.run(endpoint, store)
                    runs.append(run)
                    if output != expected:
                        raise RunFailedError(f"{program.name} {way} printed another result than before")
                measured[way].append(runs)
    return Comparison(program.name, {way: _least_disturbed(found) for way, found in measured.items()})


def _least_disturbed(rounds: Sequence[Sequence[Run]]) -> list[Run]:
    return [
        Run(min(run.seconds for run in runs), max(run.s3_bytes for run in runs)) for runs in zip(*rounds, strict=True)
    ]


def _straight(store: DelayedS3) -> Iterator[str]:
    """Yield the endpoint of each run straight to S3."""
    for _ in RUNS:
        yield store.url


def _gateways(store: DelayedS3, disk: Path) -> Iterator[str]:
    """Yield the endpoint of each run through a gateway, which restarts before the last one."""
    for numbers in (range(_RESTART_BEFORE), range(_RESTART_BEFORE, len(RUNS))):
        with running_gateway(store, disk) as url:
            for _ in numbers:
                yield url


@contextlib.contextmanager
def running_gateway(store: DelayedS3, disk: Path) -> Iterator[str]:
    """Run `burstcache gateway` for the duration of a `with`, and yield its URL."""
    command = [sys.executable, "-m", "burstcache.command", "gateway", "--bucket", BUCKET, "--port", "0"]
    command += ["--origin-endpoint", store.url, "--disk", str(disk), "--region", _VARIABLES["AWS_REGION"]]
    variables = {**os.environ, **_VARIABLES}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=PROJECT) as process:
        try:
            assert process.stdout is not None
            first_line = process.stdout.readline()
            if not first_line.startswith("http://"):
                raise RunFailedError("the gateway did not start")
            yield first_line.partition(" ")[0]
        finally:
            process.terminate()


def _installed_programs(folder: Path) -> list[Program]:
    """Return the programs that can run here; name the others."""
    programs = []
    if _PYTHON.exists():
        programs.append(Program("polars", (str(_PYTHON), str(_EXAMPLES / "busiest_hours.py"))))
    else:
        print("left out: polars is not installed (`make clients`)")
    node = shutil.which("node")
    if node and _NODE_MODULES.exists():
        (folder / "node_modules").symlink_to(_NODE_MODULES)
        copy = shutil.copy(_EXAMPLES / "dead_links.mjs", folder)
        programs.append(Program("Node", (node, str(copy))))
    else:
        print("left out: Node or AWS's SDK for JavaScript is not installed (`make clients`)")
    return programs


def write_data(folder: Path, *, divisor: int = 1) -> None:
    """Write the table and the list that the programs read, the same each time.

    Args:
        folder: The folder.
        divisor: Divides the number of rows and lines.
    """
    import numpy
    import pyarrow
    from pyarrow import parquet

    chance = numpy.random.default_rng(1)
    rows, lines = _ROWS // divisor, _LINES // divisor
    paths = [f"/directory-{number:03}/page-{number}.html" for number in range(_PATHS)]
    columns = {
        "hour": chance.integers(0, 24, rows, dtype="int32"),
        "directory": pyarrow.array(paths).take(pyarrow.array(chance.integers(0, _PATHS, rows))),
        "requests": chance.integers(0, 100, rows, dtype="int32"),
        "bytes": chance.integers(0, 1 << 40, rows),
    }
    parquet.write_table(
        pyarrow.table(columns),
        folder / "requests.parquet",
        row_group_size=rows // _ROW_GROUPS,
        compression="none",
        use_dictionary=False,
    )
    numbers = (chance.random(lines) ** 2 * _PATHS).astype(int)  # some paths are missed more often than others
    (folder / "not-found.txt").write_text("".join(f"{paths[number]}\n" for number in numbers.tolist()))


def _rows(compared: Comparison) -> Iterator[list[str]]:
    for way, runs in compared.runs.items():
        yield [compared.program, way, *(_shown(run) for run in runs)]


def _shown(run: Run) -> str:
    return f"{run.seconds:.1f} s, {run.s3_bytes / _MEGABYTE:.0f} MB"


def draw(compared: Sequence[Comparison], target: Path) -> None:
    """Write the picture as PNG: for each run a bar of its seconds, and one of its bytes from S3."""
    with drawing():
        figure_of(compared).savefig(target, dpi=150, facecolor="white", metadata={"Software": None})


def figure_of(compared: Sequence[Comparison]) -> Figure:
    """Return the picture, for use within `drawing()`: per program a panel of seconds and one of bytes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.9), layout="constrained")
    figure.suptitle(_TITLE, x=0.01, ha="left", fontsize=10, fontweight="bold")
    panels = iter(figure.subplots(1, 2 * len(compared), sharey=True))
    for each in compared:
        _draw_runs(next(panels), f"{each.program}: seconds", each, lambda run: run.seconds, "{:.1f}")
        _draw_runs(next(panels), f"{each.program}: MB from S3", each, lambda run: run.s3_bytes / _MEGABYTE, "{:.0f}")
    return figure


def _draw_runs(axes: Axes, title: str, compared: Comparison, figure: Callable[[Run], float], form: str) -> None:
    """Draw a bar for each run, with its figure."""
    labels: dict[float, str] = {}
    row = 0.0
    for way, runs in compared.runs.items():
        for name, run in zip(RUNS, runs, strict=True):
            value = figure(run)
            axes.barh(row, value, height=0.7, color=_COLOURS[way], linewidth=0)
            axes.annotate(form.format(value), (value, row), (4, 0), textcoords="offset points", va="center", color=INK)
            labels[row] = f"{way}: {name}" if name == RUNS[0] else name
            row += 1
        row += 0.5
    labels[row - 1.5] = f"after a restart: {RUNS[-1]}"
    longest = max(figure(run) for runs in compared.runs.values() for run in runs)
    axes.set_xlim(0, _LABEL_SPACE * longest)
    axes.set_ylim(row - 1, -0.6)
    axes.set_yticks(list(labels), list(labels.values()))
    axes.set_xticks([])
    axes.tick_params(left=False)
    axes.spines[["right", "bottom"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")


if __name__ == "__main__":
    sys.exit(main())
