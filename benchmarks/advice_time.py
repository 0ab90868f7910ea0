"""Processor time of `burstcache advise`, as a multiple of that of reading the log (`sim inspect`), and its memory.

The logs: NASA's and ERDDAP's (from the folder given, if it is), and one of many large objects that is drawn here from a
fixed seed: twenty minutes, of each hundred requests some thirty-six for objects that were not asked for before.

    python -m benchmarks.advice_time [--logs FOLDER] [--requests 122000] [--values unknown 1e-5]

The first command compiles the engines if the simulator has changed; its time is a line of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.advice import GIVEN
from benchmarks.support.common import environment
from burstcache_terminal.text import table_text

_SPAN_S, _OBJECT_SHARE, _ZIPF = 1_200, 0.36, 1.2
_UNKNOWN = "unknown"
_SIZES_BYTES = 500_000, 20_000_000


@dataclass(frozen=True, slots=True)
class Taken:
    """The costs of one command."""

    cpu_s: float
    most_mb: float  # resident


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="with the files of NASA and ERDDAP")
    parser.add_argument("--requests", type=int, default=122_000, metavar="N", help="of the log that is drawn")
    parser.add_argument("--values", nargs="+", default=[_UNKNOWN, "1e-5"], metavar="USD", help="what a hit is worth")
    args = parser.parse_args()
    print(environment())
    with tempfile.TemporaryDirectory() as folder:
        logs = {"many objects": _many_objects(Path(folder), args.requests)}
        logs |= {name: args.logs / file for name, file in GIVEN.items()} if args.logs else {}
        first = _take(*_advise(logs["many objects"], args.values[-1]))
        print(f"first run, perhaps with compilation: {first.cpu_s:.1f} s of processor time")
        print(table_text(_HEADER, list(_rows(logs, args.values)), right=range(1, len(_HEADER))))


_HEADER = ("log", "requests", "objects", "a hit", "reading s", "advice s", "multiple", "MB")


def _rows(logs: dict[str, Path], values: list[str]) -> Iterator[tuple[str, ...]]:
    for name, path in logs.items():
        described = json.loads(_done("sim", "inspect", path, "--json").stdout)
        reading = _take("sim", "inspect", path, "--json")
        for value in values:
            taken = _take(*_advise(path, value))
            multiple = f"{taken.cpu_s / reading.cpu_s:.1f}"
            counts = f"{described['requests']:,}", f"{described['keys']:,}"
            times = f"{reading.cpu_s:.1f}", f"{taken.cpu_s:.1f}"
            yield name, *counts, value, *times, multiple, f"{taken.most_mb:,.0f}"


def _many_objects(folder: Path, requests: int) -> Path:
    """Write a log of many objects, of which most are asked for once."""
    random, path = np.random.default_rng(5), folder / "many.csv"
    objects = max(1, round(_OBJECT_SHARE * requests))
    again = (random.zipf(_ZIPF, requests - objects) - 1) % objects
    keys = random.permutation(np.concatenate([np.arange(objects), again]))
    low, high = np.log(_SIZES_BYTES)
    sizes_bytes = np.exp(random.uniform(low, high, objects)).astype(np.int64)[keys]
    times_s = np.sort(random.uniform(0, _SPAN_S, requests))
    rows = zip(times_s.tolist(), keys.tolist(), sizes_bytes.tolist(), strict=True)
    path.write_text("t,key,size\n" + "".join(f"{at_s:.6f},{key},{size}\n" for at_s, key, size in rows))
    return path


def _advise(path: Path, value: str) -> tuple[str | Path, ...]:
    known = () if value == _UNKNOWN else ("--hit-value-usd", value)
    return ("advise", path, *known, "--json")


_CODE = (
    "import resource, sys; from burstcache_cli.cli import main; code = main(sys.argv[1:]);"
    " use = resource.getrusage(resource.RUSAGE_SELF);"
    " print(use.ru_utime + use.ru_stime, use.ru_maxrss / 1024, file=sys.stderr); sys.exit(code)"
)


def _take(*arguments: str | Path) -> Taken:
    """Return the costs of one command, measured in a process of its own."""
    cpu_s, most_mb = _done(*arguments).stderr.splitlines()[-1].split()
    return Taken(float(cpu_s), float(most_mb))


def _done(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of this version, and end with what it says if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"burstcache {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done


if __name__ == "__main__":
    main()
