"""Seconds that the commands of each quickstart take on a machine that has neither the project nor its packages.

    python -m benchmarks.quickstarts [PAGE …]

A fresh clone, a home without caches, pip as it comes with Python, downloads included. Reading and typing come on top.
`operate` takes the ports 8080 to 8082.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.read_path import free_port
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.quickstarts import bucket, commands, on_free_ports
from burstcache_terminal.text import table_text

_PAGES = ("read", "results", "decide", "operate")
_PRELUDE = "set -eo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
_TIME = "echo $EPOCHREALTIME >> times\n"


def main() -> None:
    """Print the seconds of each page by its blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=_PAGES, metavar="PAGE", help=f"default: {' '.join(_PAGES)}")
    pages: Sequence[str] = parser.parse_args().pages
    if unknown := [page for page in pages if page not in _PAGES]:
        parser.error(f"{', '.join(unknown)}: expected some of {', '.join(_PAGES)}")
    print(environment(), flush=True)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    rows = list[tuple[str, str, str]]()
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            clone = ("git", "clone", "--quiet", "--depth=1", PROJECT.as_uri(), f"{folder}/burstcache")
            durations_s = [*_timed(*clone), *(_operated if page == "operate" else _typed)(page, Path(folder))]
        rows.append((page, f"{sum(durations_s):.0f}", ", ".join(f"{each_s:.1f}" for each_s in durations_s)))
    print(table_text(("quickstart", "seconds", "clone, then each block"), rows))


def _timed(*command: str) -> list[float]:
    begun_s = time.monotonic()
    subprocess.run(command, check=True)
    return [time.monotonic() - begun_s]


def _typed(page: str, folder: Path) -> list[float]:
    """Type a page into one shell beside the clone; return the seconds of its blocks."""
    port = free_port()
    shutil.copy(folder / "burstcache/examples/logs/bursts.csv.gz", folder / "access.log.gz")  # the reader's own log
    with bucket() as variables:
        return _shell([on_free_ports(port, block) for block in commands(f"{page}.md")], folder, folder, variables)


def _operated(page: str, folder: Path) -> list[float]:
    """Start the system, then type the rest into a second shell."""
    first, *others = commands(f"{page}.md")
    clone, begun_s = folder / "burstcache", time.monotonic()
    run = subprocess.Popen(["sh", "-c", first], cwd=clone, env=_fresh(folder), stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        next(line for line in run.stdout if "Ctrl-C" in line)
        return [time.monotonic() - begun_s, *_shell(others, clone, folder, {})]
    finally:
        run.terminate()
        run.wait()


def _shell(blocks: Sequence[str], folder: Path, home: Path, variables: dict[str, str]) -> list[float]:
    script = _PRELUDE + _TIME + "".join(block + _TIME for block in blocks)
    done = subprocess.run(
        ["bash"], input=script, cwd=folder, env=_fresh(home) | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    times_s = map(float, (folder / "times").read_text().split())
    return [after_s - before_s for before_s, after_s in pairwise(times_s)]


def _fresh(home: Path) -> dict[str, str]:
    """Return an environment without caches; packages' indexes and certificates stay those of the machine."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_CACHE_DIR")}
    return kept | {"HOME": str(home)}


if __name__ == "__main__":
    main()
