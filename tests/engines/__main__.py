"""Main program of the engines: run the tests that use DynamoDB against each of them. Other options are pytest's."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from engines.processes import NAMES, missing
from support.project import ROOT

_UNITS = ("adapters", "control", "queries", "serve", "state", "results", "local/test_refused_writes.py")
_WHOLE = ("lifecycle", *(f"unit/{name}" for name in _UNITS))
# The rows of every table, transactions, and whole lives of keys and nodes.
_SHORT = (
    "unit/local/test_refused_writes.py",
    "unit/adapters/test_tables.py",
    "unit/adapters/test_use_table.py",
    "unit/adapters/test_digest_table.py",
    "unit/adapters/test_batches.py",
    "lifecycle/test_whole_lives.py",
    "lifecycle/test_nodes_by_use.py",
    "lifecycle/test_databases_of_state.py",
)


def main() -> int:
    """Run the tests and return the highest exit code. An engine that this machine cannot run is named and left out."""
    parser = argparse.ArgumentParser(prog="engines", description=__doc__)
    parser.add_argument("--engine", action="append", choices=NAMES, help="repeat for several; all without it")
    parser.add_argument("--short", action="store_true", help="run a minute of the tests")
    arguments, options = parser.parse_known_args()
    codes = [0]
    for name in arguments.engine or NAMES:
        print(f"== {name}", flush=True)
        if problem := missing(name):
            print(f"NOT RUN: {problem}", flush=True)
        else:
            chosen = any(Path(each.partition("::")[0]).exists() for each in options)
            tests = () if chosen else _SHORT if arguments.short else _WHOLE
            codes.append(_run("-p", "engines.plugin", "--engine", name, *options, *(f"tests/{each}" for each in tests)))
    if not (arguments.short or options):
        print("== JSONata", flush=True)
        codes.append(_run("tests/engines", "-rs"))
    return max(codes)


def _run(*options: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *options], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
