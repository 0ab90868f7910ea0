"""All faults, one after the other, each under both policies at once: `make chaos`.

    PYTHONPATH=tests python -m chaos [--from FAULT] [--only FAULT …] [--out DIR] [--reads-per-s N]

A fault leaves a result, `FAULT.json`, and a picture. A run that was interrupted goes on where it was, unless the load,
the times or the code of the system have changed; `--from` does the faults from that one on anew. `chaos.evidence` makes
a page of the results.
Exit code 1 if anything was found that must not be, each of which is named; 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from pathlib import Path

from burstcache_local.machines import processes
from chaos.faults import FAULTS, Fault
from chaos.rate import SHARE, measured_per_s
from chaos.report import draw, named_findings, table
from chaos.results import Results, Rows, exit_code, parsed, write
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
    return exit_code(
        lambda: _run(arguments), program="chaos", if_interrupted="without --from and --only it goes on where it was"
    )


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
    wanted = [fault for fault in FAULTS if fault.name in arguments.only]
    with closing(_in_turn(wanted, results)) as turns:
        for fault, ended in turns:
            try:
                rows_now = [(fault, run) for run in ended()]
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


Ended = Callable[[], list[Run]]


def _in_turn(faults: Iterable[Fault], results: Results) -> Generator[tuple[Fault, Ended]]:
    """Do what has no result of this code yet; yield each fault with what waits for its end and returns what came of it.

    While nobody reads any more, and what runs is awaited, the next fault has the machine. Its load has ended when this
    one is yielded, so that drawing takes nothing from a load.
    """
    with ExitStack() as interrupted:
        before: tuple[Fault, Ended] | None = None
        for fault in faults:
            if results.are_current(fault):
                ended: Ended = partial(results.runs, fault)
            else:
                ended = _begun(fault, results, interrupted.enter_context(ExitStack()))
            if before:
                yield before
            before = fault, ended
        if before:
            yield before


def _begun(fault: Fault, results: Results, running: ExitStack) -> Ended:
    """Do a fault under all policies at once, each in a process of its own, until their loads have ended."""
    plan = json.dumps(asdict(results.plan))
    started: dict[Path, subprocess.Popen[bytes]] = {}
    ends: list[int] = []
    for policy in POLICIES:
        path = results.folder / f"{fault.name}.{policy}.run"
        log = path.with_suffix(".log")
        log.unlink(missing_ok=True)
        end, write_end = os.pipe()
        command = [sys.executable, "-m", "chaos.run", fault.name, policy, plan, str(path), str(write_end)]
        started[path] = processes.start(command, env=module_environment(), log=log, pass_fds=[write_end])
        running.callback(processes.stop, started[path], grace_s=_GRACE_S)
        os.close(write_end)
        ends.append(end)
    for end in ends:
        select.select([end], [], [], _LIMIT_S)  # a run that fails, too, ends what is read here
        os.close(end)
    return partial(_ended, fault, started, running, results)


def _ended(
    fault: Fault, started: Mapping[Path, subprocess.Popen[bytes]], running: ExitStack, results: Results
) -> list[Run]:
    """Wait for the runs of a fault, keep what came of it, and draw it.

    Raises:
        RunFailedError: One has ended without a result.
    """
    with running:
        for path, process in started.items():
            if status := _status(process):
                raise RunFailedError(f"{path.stem}: the run ended with {status}; see {path.with_suffix('.log')}")
    runs = [parsed(json.loads(path.read_text())) for path in started]
    for path in started:
        path.unlink()
    draw(fault, runs, results.folder / f"{fault.name}.png")
    results.keep(fault, runs)
    return runs


def _status(process: subprocess.Popen[bytes]) -> int | str:
    """Wait for the end of a run; return its status, or that it did not end in time."""
    try:
        return process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"nothing after {_LIMIT_S:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
