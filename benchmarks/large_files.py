"""Large files read by real programs, run after run: requests to S3, bytes and seconds, next to other ways to read them.

A stand-in for S3 answers after 25 ms and sends 85 MB/s per connection (`benchmarks.support.delayed_s3`). Each program
runs three times, each time in a new process. It begins when all that the run before it has confirmed is older than the
bound of staleness (2 s), so that no run believes another without a question. In each process it runs once more at once.

The group `s3fs` needs an older botocore than the tests, so this benchmark has an environment of its own. What is not
installed is left out.

    uv venv build/peers && uv pip install -p build/peers --group peers --group s3fs -e '.[fsspec]'
    uv pip install -p build/peers --no-deps -e tools
    build/peers/bin/python -m benchmarks.large_files [--programs NAME …] [--systems NAME …] [--small]
        [--before FOLDER] [--mount-s3 FILE] [--json FILE]

`--before` is a clone of the project at an older commit, which stays there meanwhile. `--mount-s3` is the binary of
Mountpoint, which needs FUSE.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client.common import print_rows
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.delayed_s3 import DELAY_MS, MB_PER_S, delayed_s3
from benchmarks.support.large_data import Sizes, write_data
from benchmarks.support.large_programs import BUCKET, PROGRAMS, SYSTEMS, has

_RUNS = 3
_PAUSE_S = 2.5  # above `max_stale_ms`, whose default is 2 s
_MOUNT_LIMIT_S = 20.0
_REFERENCE = "local"
_MOUNTED = ("mountpoint", "mountpoint, cache")
_MEGABYTE = 1e6
_VARIABLES = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}  # nobody is to ask for this machine's credentials

Run = Mapping[str, Any]  # requests by method, bytes, seconds and result


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings that all measurements share."""

    url: str
    data: Path
    before: Path | None
    mount_s3: Path | None

    def can_run(self, program: str, system: str) -> bool:
        """Return True if all that a program and a system need is installed."""
        if not has(program):
            return False
        if system.startswith("s3fs"):
            return importlib.util.find_spec("s3fs") is not None
        if system.startswith("before"):
            return self.before is not None
        return system not in _MOUNTED or self.mount_s3 is not None

    def run(self, program: str, system: str, folder: Path) -> list[Run]:
        """Run a program in a process of its own, and return its runs there. None: the system cannot do it."""
        command = [sys.executable, "-m", "benchmarks.support.large_programs", program, system, self.url, str(folder)]
        sources = [self.before / "src"] if system.startswith("before") and self.before is not None else []
        paths = [*map(str, sources), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {**_VARIABLES, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=PROJECT, check=False)
        if done.returncode != 0:
            raise RunFailedError(f"{program}, {system}: {done.stderr.strip().splitlines()[-1]}")
        runs: list[Run] = json.loads(done.stdout.splitlines()[-1])
        return runs


class RunFailedError(Exception):
    """A program failed."""


def measure(setting: Setting, program: str, system: str) -> list[list[Run]]:
    """Return the runs of a program in several processes, each of which began after the bound of staleness."""
    measured = []
    with tempfile.TemporaryDirectory(prefix="large-files-") as folder, _mounted(setting, system, Path(folder)) as place:
        for number in range(_RUNS):
            time.sleep(_PAUSE_S if number else 0)
            measured.append(setting.run(program, system, place))
    return measured


@contextlib.contextmanager
def _mounted(setting: Setting, system: str, folder: Path) -> Iterator[Path]:
    """Mount the bucket if a system reads by Mountpoint, and yield the folder to pass to the program."""
    if system not in _MOUNTED or setting.mount_s3 is None:
        yield folder
        return
    mount, cache = folder / "mount", folder / "cache"
    mount.mkdir()
    cache.mkdir()
    command = [str(setting.mount_s3), BUCKET, str(mount), "--endpoint-url", setting.url, "--force-path-style"]
    command += ["--region", "us-east-1", "--foreground", "--metadata-ttl", "2", "--maximum-throughput-gbps", "10"]
    command += ["--cache", str(cache)] if system == "mountpoint, cache" else []
    variables = {**_VARIABLES, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + _MOUNT_LIMIT_S
        while not mount.is_mount():
            if process.poll() is not None or time.monotonic() > end_s:
                raise RunFailedError(f"{system}: mount-s3 did not mount")
            time.sleep(0.05)
        yield mount
    finally:
        process.terminate()  # it unmounts
        process.wait()


def _row(program: str, system: str, measured: Sequence[Sequence[Run]]) -> list[object]:
    figures = [_shown(runs[0]) for runs in measured]
    return [program, system, *figures, _shown(measured[-1][1])]


def _shown(run: Run) -> str:
    requests = "+".join(str(run[method]) for method in ("GET", "HEAD", "LIST"))
    return f"{requests}, {run['bytes'] / _MEGABYTE:,.1f} MB, {run['seconds']:.2f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.large_files", description=__doc__.splitlines()[0])
    systems = [system for system in SYSTEMS if system != _REFERENCE]
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--systems", nargs="+", choices=systems, default=systems, metavar="NAME")
    parser.add_argument("--small", action="store_true", help="read small files")
    parser.add_argument("--before", type=Path, help="a clone at an older commit")
    parser.add_argument("--mount-s3", type=Path, default=shutil.which("mount-s3"), help="Mountpoint's binary")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    arguments = parser.parse_args()
    print(environment())
    print(f"S3: {DELAY_MS:.0f} ms and {MB_PER_S:.0f} MB/s per connection\n", flush=True)
    titles = [
        "program",
        "system",
        *(f"run {number + 1}: GET+HEAD+LIST" for number in range(_RUNS)),
        "once more in run 3",
    ]
    print_rows([titles, ["---"] * len(titles)])
    everything = {}
    with tempfile.TemporaryDirectory(prefix="large-data-") as folder:
        data = Path(folder)
        write_data(data, Sizes.small() if arguments.small else Sizes())
        with delayed_s3(data) as store:
            before = None if arguments.before is None else arguments.before.resolve()
            setting = Setting(store.url, data, before, arguments.mount_s3)
            for program in filter(has, arguments.programs):
                expected = setting.run(program, _REFERENCE, data)[0]["result"]
                for system in arguments.systems:
                    if not setting.can_run(program, system):
                        continue
                    try:
                        measured = measure(setting, program, system)
                    except RunFailedError as error:
                        print_rows([[program, system, error]])
                        continue
                    if not measured[0]:
                        continue
                    if any(run["result"] != expected for runs in measured for run in runs):
                        sys.exit(f"{program}, {system}: wrong bytes")
                    print_rows([_row(program, system, measured)])
                    everything[f"{program}, {system}"] = measured
                    if arguments.json:
                        arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
