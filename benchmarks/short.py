"""Run every benchmark in its short form, one after the other, so that none of them rots.

    python -m benchmarks.short [NAME …]

A short form shows that a benchmark still runs to its end. Its figures mean nothing: those of the documents come from
the long form, on an idle machine. The exit code is 1 if one of them failed or took longer than its limit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LIMIT_S, _GRACE_S = 600, 30
_SHOWN_LINES = 15  # of what a failed benchmark printed
_IMAGE, _FOLDER, _TLS_SERVER = "{image}", "{folder}", "{tls_server}"  # stand for what is made or found here


@dataclass(frozen=True, slots=True)
class Short:
    """The arguments of a benchmark's short form."""

    arguments: str = ""
    judges: bool = False  # it also judges what it measured, which a busy machine may fail: exit code 1 is no fault

    def command(self, name: str, folder: Path, tls_server: str) -> list[str]:
        """Return the command of the short form."""
        given = {_IMAGE: str(folder / "image.png"), _FOLDER: str(folder), _TLS_SERVER: tls_server}
        arguments = [given.get(argument, argument) for argument in self.arguments.split()]
        return [sys.executable, "-m", f"benchmarks.{name}", *arguments]


SHORT = {
    "advice": Short("--candidates 8"),
    "advice_time": Short("--requests 1000 --values unknown"),
    "bulk_upload": Short("--seconds 2 --per-s 100"),
    "burst": Short(judges=True),
    "classes": Short("--candidates 8"),
    "client": Short("--gets 8 --seconds 0.1 --keys 8 --writes 4"),
    "cold_path": Short("--runs 1 --memory 1024"),
    "dashboard": Short(_IMAGE),
    "dashboard_page": Short("--load-per-s 2", judges=True),
    "dashboard_pictures": Short(_FOLDER),
    "demo": Short(),
    "evaluate": Short(f"--std-s 50 --out {_FOLDER}", judges=True),
    "express_copies": Short("examples/logs/bursts.csv.gz --values 10"),
    "gateway": Short("--sizes 10000 --rounds 1 --clients 20"),
    "gateway_init": Short("--runs 1 --memory 1024"),
    "gateway_runs": Short(f"{_IMAGE} --small --rounds 1"),
    "guests": Short("--rounds 20"),
    "halves": Short("examples/logs/bursts.csv.gz"),
    "hits": Short("--gets 8 --clients 1 8"),
    "hot_starts": Short("--starts 40 --limits 5 50"),
    "import_time": Short("--runs 1 --only-imports"),
    "large_files": Short("--small --programs pandas pyarrow ranges --systems bare memory disk"),
    "load": Short("--seconds 0.2"),
    "log_reading": Short("--lines 2000 --keys 100 --files 4"),
    "node_kinds": Short("--only one-timers"),
    "picture": Short(_IMAGE),
    "policy_cost": Short("--seeds 1"),
    "pool": Short("--rounds 2"),
    "pool_ranges": Short("--size-mb 600 --rounds 100"),  # enough reads for the pool to open meanwhile
    "pool_soak": Short("--operations 60 --largest-mb 4"),
    "quickstarts": Short("results"),
    "range_memory": Short("--size-mb 300 --memory-mib 64", judges=True),
    "read_path": Short("--rounds 20"),
    "recording": Short(_IMAGE),
    "redis_slices": Short("--rounds 20"),
    "redis_tls": Short(f"--server {_TLS_SERVER} --rounds 20"),
    "replay": Short("--seconds 1 --rates 100"),
    "reports": Short("--hit-values-usd 1e-5"),
    "results_load": Short("--rounds 1 --rate-for-s 0.6"),
    "results_outages": Short("--phase-s 0.5"),
    "results_peers": Short("--batches 2"),
    "results_places": Short("--runs 2"),
    "rivals": Short("--batches 2"),
    "rivals_month": Short(),
    "sim_speed": Short("--requests 20000"),
    "slice_entries": Short("--rounds 1 --reads 1000"),
    "slice_files": Short("--rounds 20"),
    "slice_hits": Short("--rounds 20"),
    "slice_sizes": Short("--sizes-kib 1024 --small"),
    "staleness": Short("--seconds 2 --gets 20"),
    "start_latency": Short("--repeats 2"),
    "state_operations": Short("--invocations 2"),
    "state_reaction": Short("--cycles 2"),
    "state_students": Short("--times 2"),
    "task_boot": Short("--boots 1"),
    "trace": Short(_IMAGE),
    "walls": Short("--seconds 0.5 --changing-seconds 1"),
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the short forms; return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.short", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run (default: all)")
    names = parser.parse_args(words).names or list(SHORT)
    if unknown := [name for name in names if name not in SHORT]:
        parser.error(f"{', '.join(unknown)}: expected some of {', '.join(SHORT)}")
    tls_server = shutil.which("valkey-server") or shutil.which("redis-server") or ""
    failed = 0
    for name in names:
        if _TLS_SERVER in SHORT[name].arguments and not tls_server:
            print(f"{name:<20} left out: no valkey-server or redis-server with TLS is on the PATH", flush=True)
            continue
        failed += not _runs(name, tls_server)
    print(f"benchmarks: {len(names) - failed} passed, {failed} failed")
    return int(failed > 0)


def _runs(name: str, tls_server: str) -> bool:
    """Run a short form and print how it ended; return whether it ran to its end."""
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as printed:
        code = _exit_code(SHORT[name].command(name, Path(folder), tls_server), printed)
        printed.seek(0)
        shown = printed.read().splitlines()[-_SHOWN_LINES:]
    has_run = code == 0 or (code == 1 and SHORT[name].judges and not any("Traceback" in line for line in shown))
    ended = f"exit code {code}" if code is not None else f"not over after {_LIMIT_S} s"
    print(f"{name:<20} {time.monotonic() - begun_s:6.1f} s  {'ok' if has_run else f'FAILED, {ended}'}", flush=True)
    if not has_run:
        print("\n".join(f"    {line}" for line in shown), flush=True)
    return has_run


def _exit_code(command: list[str], printed: IO[str]) -> int | None:
    """Run a command in a process group of its own, so that whatever it has started ends with it; None: too slow."""
    process = subprocess.Popen(
        command, stdout=printed, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
