"""All faults, one after the other, each under both policies at once: `make chaos`.

    PYTHONPATH=tests python -m chaos [--from FAULT] [--only FAULT …] [--out DIR] [--reads-per-s N]

A fault leaves a result, `FAULT.json`, and a picture. A run that was interrupted goes on where it was; `--from` does the
faults from that one on anew. Exit code 1 if anything was found that must not be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from burstcache_local.machines import processes
from chaos.faults import FAULTS, Fault
from chaos.rate import SHARE, measured_per_s
from chaos.report import draw, findings, parsed, table
from chaos.run import BEFORE_S, CACHED_PER_S, FAULT_S, POLICIES, Plan, Run, hot_keys

_TESTS = Path(__file__).parents[1]
_LIMIT_S = 420.0  # a run ends by itself long before
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
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for name in _anew(arguments.first, arguments.only):
        (out / f"{name}.json").unlink(missing_ok=True)
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
    rows: list[tuple[Fault, Run]] = []
    found: list[str] = []
    for fault in (fault for fault in FAULTS if fault.name in arguments.only):
        try:
            runs = _runs(fault, plan, out)
        except RunFailedError as error:
            found.append(str(error))
        else:
            rows += [(fault, run) for run in runs]
            found_now = [f"{fault.name}, {run.policy}: {finding}" for run in runs for finding in findings(fault, run)]
            print(table((fault, run) for run in runs), *found_now, sep="\n", flush=True)
            found += found_now
    (out / "table.txt").write_text(report := "\n".join([table(rows), *found]) + "\n")
    print(f"\n{report}")
    return 1 if found else 0


class RunFailedError(Exception):
    """A run has ended without a result; the message says which one and where its log is."""


def _anew(first: str | None, only: Sequence[str]) -> Sequence[str]:
    """Return the faults whose results are not wanted any more."""
    if first:
        return _NAMES[_NAMES.index(first) :]
    return () if only is _NAMES else only


def _runs(fault: Fault, plan: Plan, out: Path) -> list[Run]:
    """Return what came of a fault, which is done unless its result is there."""
    path = out / f"{fault.name}.json"
    if not path.exists():
        runs = list(_done(fault, plan, out))
        draw(fault, runs, out / f"{fault.name}.png")
        path.write_text(json.dumps([asdict(run) for run in runs]))
    return [parsed(run) for run in json.loads(path.read_text())]


def _done(fault: Fault, plan: Plan, out: Path) -> Iterator[Run]:
    """Do a fault under all policies at once, each in a process of its own."""
    paths = {policy: out / f"{fault.name}.{policy}.run" for policy in POLICIES}
    logs = {policy: out / f"{fault.name}.{policy}.log" for policy in POLICIES}
    started = {}
    for policy, log in logs.items():
        command = [sys.executable, "-m", "chaos.run", fault.name, policy, json.dumps(asdict(plan)), str(paths[policy])]
        log.unlink(missing_ok=True)
        started[policy] = processes.start(command, env=os.environ, log=log, cwd=_TESTS)
    ended = {policy: _ended(process) for policy, process in started.items()}
    for policy, status in ended.items():
        if status:
            raise RunFailedError(f"{fault.name}, {policy}: the run ended with {status}; see {logs[policy]}")
        yield parsed(json.loads(paths[policy].read_text()))
        paths[policy].unlink()


def _ended(process: subprocess.Popen[bytes]) -> int | str:
    """Wait for the end of a run; return its status, or that it did not end in time."""
    try:
        return process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"nothing after {_LIMIT_S:.0f} s"
    finally:
        processes.stop(process, grace_s=10)


if __name__ == "__main__":
    sys.exit(main())
