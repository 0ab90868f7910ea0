"""All faults, one after the other, each under both policies at once: `make chaos`.

    PYTHONPATH=tests python -m chaos [--from FAULT] [--only FAULT …] [--out DIR] [--reads-per-s N]

A fault leaves a result, `FAULT.json`, and a picture. A run that was interrupted goes on where it was, unless the load
or the times have changed; `--from` does the faults from that one on anew. `chaos.evidence` makes a page of the results.
Exit code 1 if anything was found that must not be, each of which is named; 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from burstcache_local.machines import processes
from chaos.faults import FAULTS, Fault
from chaos.rate import SHARE, TooSlowError, measured_per_s
from chaos.report import draw, named_findings, table
from chaos.results import INTERRUPTED, Results, Rows, parsed, write
from chaos.run import BEFORE_S, CACHED_PER_S, FAULT_S, POLICIES, Plan, Run, hot_keys, module_environment

_TESTS = Path(__file__).parents[1]
_LIMIT_S = 420.0  # a run ends by itself long before
_GRACE_S = 15.0  # of one that is to end
_NAMES = [fault.name for fault in FAULTS]


def main() -> int:
    """Run the faults; return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--from", dest="first", choices=_NAMES, metavar="FAULT", help="do this one and those after it, anew")
    add("--only", nargs="+", choices=_NAMES, default=_NAMES, metavar="FAULT", help="do these alone, anew")
    add("--out", type=Path, default=_TESTS.parent / "build/chaos", metavar="DIR", help="where results go")
    add("--reads-per-s", type=float, metavar="N", help="instead of what is measured first")
    add(
        "--cached-per-s", type=float, default=CACHED_PER_S, metavar="N", help="reads where a tier stands (default: 200)"
    )
    add("--before-s", type=float, default=BEFORE_S, metavar="S", help="loaded before the fault (default: 20)")
    add("--fault-s", type=float, default=FAULT_S, metavar="S", help="how long it lasts (default: 30)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(arguments)
    except TooSlowError as error:
        print(f"chaos: {error}; --reads-per-s sets a rate", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("chaos: interrupted; without --from and --only it goes on where it was", file=sys.stderr)
        return INTERRUPTED


class RunFailedError(Exception):
    """A run has ended without a result; the message says which one and where its log is."""


def _run(arguments: argparse.Namespace) -> int:
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    reads_per_s = arguments.reads_per_s or measured_per_s(out)
    print(f"{reads_per_s:.1f} reads a second are served by S3; each policy gets half of {SHARE:.0%}", flush=True)
    share_per_s = SHARE * reads_per_s / len(POLICIES)
    plan = Plan(
        share_per_s,
        arguments.cached_per_s / len(POLICIES),
        hot_keys(share_per_s),
        before_s=arguments.before_s,
        fault_s=arguments.fault_s,
    )
    results = Results(out, plan)
    results.begin()
    results.forget(_anew(arguments.first, arguments.only))
    rows: Rows = []
    found: list[str] = []
    for fault in (fault for fault in FAULTS if fault.name in arguments.only):
        try:
            rows_now = [(fault, run) for run in _runs(fault, results)]
        except RunFailedError as error:
            rows_now, found_now = [], [str(error)]
        else:
            found_now = named_findings(rows_now)
        print(table(rows_now), *found_now, sep="\n", flush=True)
        rows, found = rows + rows_now, found + found_now
    report = "\n".join([table(rows), *found, f"{len(found)} found that must not be", ""])
    write(out / "table.txt", report)
    print(f"\n{report}", end="", flush=True)
    return 1 if found else 0


def _anew(first: str | None, only: Sequence[str]) -> Sequence[str]:
    """Return the faults whose results are not wanted any more."""
    if first:
        return _NAMES[_NAMES.index(first) :]
    return () if only is _NAMES else only


def _runs(fault: Fault, results: Results) -> list[Run]:
    """Return what came of a fault, which is done unless its result is there."""
    if runs := results.runs(fault):
        return runs
    runs = _done(fault, results)
    draw(fault, runs, results.folder / f"{fault.name}.png")
    results.keep(fault, runs)
    return runs


def _done(fault: Fault, results: Results) -> list[Run]:
    """Do a fault under all policies at once, each in a process of its own."""
    paths = {policy: results.folder / f"{fault.name}.{policy}.run" for policy in POLICIES}
    plan = json.dumps(asdict(results.plan))
    with ExitStack() as running:
        started = {}
        for policy, path in paths.items():
            log = path.with_suffix(".log")
            log.unlink(missing_ok=True)
            command = [sys.executable, "-m", "chaos.run", fault.name, policy, plan, str(path)]
            started[policy] = processes.start(command, env=module_environment(), log=log)
            running.callback(processes.stop, started[policy], grace_s=_GRACE_S)
        for policy, process in started.items():
            if status := _ended(process):
                log = paths[policy].with_suffix(".log")
                raise RunFailedError(f"{fault.name}, {policy}: the run ended with {status}; see {log}")
    runs = [parsed(json.loads(path.read_text())) for path in paths.values()]
    for path in paths.values():
        path.unlink()
    return runs


def _ended(process: subprocess.Popen[bytes]) -> int | str:
    """Wait for the end of a run; return its status, or that it did not end in time."""
    try:
        return process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"nothing after {_LIMIT_S:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
