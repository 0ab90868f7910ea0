"""Start of the gateway in Lambda's INIT phase: from the process to the first accepted connection.

`make gateway-layer` builds the layer for this Python and processor. Each start is a new process with the layer's files,
with and without their bytecode, for which Lambda's read-only /opt leaves no place. The process has the whole machine,
or Lambda's share of a CPU by memory (1,769 MB are one vCPU), which needs root and a cgroup.

    python -m benchmarks.gateway_init [--runs 5] [--memory 512 1024]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.cold_path import Quota
from benchmarks.support.common import PROJECT, environment
from burstcache_terminal.text import table_text

_COMMAND = "-P -m burstcache.gateway --bucket examples --port 0 --region us-east-1"
_WITH, _WITHOUT = "with bytecode", "without"


def _layer(folder: Path) -> Path:
    """Build the layer, and return the folder of its libraries."""
    python = f"LAYER_PYTHON={sys.version_info.major}.{sys.version_info.minor}"
    built = (f"GATEWAY_LAYER={folder / 'layer'}", python, f"LAYER_PROCESSOR={platform.machine()}")
    subprocess.run(["make", "-s", "gateway-layer", *built], cwd=PROJECT, check=True)
    return folder / "layer" / "burstcache-gateway"


def _start(libraries: Path, memory_mb: int | None) -> tuple[float, float]:
    """Return the time from the start to the first accepted connection, by the clock and of the CPU [ms]."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(libraries),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SSL_CERT_FILE": str(libraries / "burstcache" / "adapters" / "amazon_roots.pem"),  # as the extension has it
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    }
    script = f'kill -STOP $$; exec "{sys.executable}" {_COMMAND}'
    process = subprocess.Popen(["sh", "-c", script], env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with Quota() as quota:
            quota.take(process.pid)
            if memory_mb is not None:
                quota.limit(memory_mb)
            used_ms, began_s = quota.used_ms(), time.perf_counter()
            process.send_signal(signal.SIGCONT)
            assert " reads " in process.stdout.readline()
            took = (time.perf_counter() - began_s) * 1000, quota.used_ms() - used_ms
            process.kill()
            process.wait()
        return took
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    """Print a table of medians."""
    parser = argparse.ArgumentParser("python -m benchmarks.gateway_init", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="starts of each kind (default: 5)")
    parser.add_argument("--memory", type=int, nargs="*", default=[512, 1024], help="memory sizes of a function [MB]")
    arguments = parser.parse_args()
    print(environment())
    with tempfile.TemporaryDirectory() as folder:
        compiled, stripped = _layer(Path(folder)), Path(folder) / "stripped"
        shutil.copytree(compiled, stripped, ignore=shutil.ignore_patterns("__pycache__"))
        kinds = [
            (kind, libraries, memory_mb)
            for memory_mb in (None, *arguments.memory)
            for kind, libraries in ((_WITH, compiled), (_WITHOUT, stripped))
        ]
        took = {(kind, memory_mb): list[tuple[float, float]]() for kind, _, memory_mb in kinds}
        for _ in range(arguments.runs):
            for kind, libraries, memory_mb in kinds:
                took[kind, memory_mb].append(_start(libraries, memory_mb))
    rows = [
        (
            "whole machine" if memory_mb is None else f"{memory_mb:,} MB",
            kind,
            *(f"{statistics.median(each[part] for each in values):.0f}" for part in (0, 1)),
        )
        for (kind, memory_mb), values in took.items()
    ]
    print(table_text(("CPU", "layer", "ms", "CPU ms"), rows, right=(2, 3)))


if __name__ == "__main__":
    main()
