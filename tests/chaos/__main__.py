"""The main program of the fault injection: all faults in turn, under both policies (`make chaos`).

    PYTHONPATH=tests python -m chaos [--from FAULT] [--only FAULT …] [--out DIR] [--reads-per-s N]

A fault leaves a result, `FAULT.json`, and a picture. An interrupted run resumes, unless the load, the times or the
system's code have changed. `--from` repeats that fault and all later ones. `chaos.evidence` writes the page of results.
Exit code 1: a fault fails the criteria, or a run failed; each is named. Exit code 130: interrupted.
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
from chaos.faults import FAULTS
from chaos.rate import SHARE, measured_per_s
from chaos.report import draw, sentences, table
from chaos.results import Results, Rows, exit_code, parsed, write
from chaos.run import BEFORE_S, FAULT_S, POLICIES, Plan, Run, Turn, cached_per_s, hot_keys, module_environment, turns

_TESTS = Path(__file__).parents[1]
_LIMIT_S = 420.0  # of a run, which normally ends long before
_GRACE_S = 15.0  # from the request to stop a run until it is killed
_NAMES = [fault.name for fault in FAULTS]


def main() -> int:
    """Run the faults; return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--from", dest="first", choices=_NAMES, metavar="FAULT", help="repeat this fault and all later ones")
    add("--only", nargs="+", choices=_NAMES, default=_NAMES, metavar="FAULT", help="repeat these faults alone")
    add("--out", type=Path, default=_TESTS.parent / "build/chaos", metavar="DIR", help="folder of the results")
    add("--reads-per-s", type=float, metavar="N", help="reads/s that S3 serves (default: measured first)")
    add(
        "--cached-per-s",
        type=float,
        metavar="N",
        help="the same if a cached tier survives (default: twice S3's, to 200)",
    )
    add("--before-s", type=float, default=BEFORE_S, metavar="S", help="load before each fault (default: 15)")
    add("--fault-s", type=float, default=FAULT_S, metavar="S", help="length of each fault (default: 30)")
    arguments = parser.parse_args()
    return exit_code(
        lambda: _run(arguments), program="chaos", if_interrupted="run it again without --from and --only to resume"
    )


class RunFailedError(Exception):
    """A run that ended without a result; the message names it and its log."""


def _run(arguments: argparse.Namespace) -> int:
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    reads_per_s = arguments.reads_per_s or measured_per_s(out)
    print(f"S3 alone sustains {reads_per_s:.1f} reads/s; the load is {SHARE:.0%} of that", flush=True)
    load_per_s = SHARE * reads_per_s
    plan = Plan(
        load_per_s,
        arguments.cached_per_s or cached_per_s(reads_per_s),
        hot_keys(load_per_s / len(POLICIES)),
        before_s=arguments.before_s,
        fault_s=arguments.fault_s,
    )
    results = Results(out, plan)
    results.begin()
    results.forget(_anew(arguments.first, arguments.only))
    rows: Rows = []
    failed: list[str] = []  # runs
    wanted = [fault for fault in FAULTS if fault.name in arguments.only]
    with closing(_in_turn(turns(wanted), results)) as done:
        for turn, ended in done:
            try:
                rows_now = [(turn.fault, run) for run in ended()]
            except RunFailedError as error:
                print(error, flush=True)
                failed.append(str(error))
            else:
                print(table(rows_now), *_found(rows_now), sep="\n", flush=True)
                rows += rows_now
    found = [*failed, *_found(rows)]
    report = "\n".join([table(rows), *found, f"{len(found)} findings", ""])
    write(out / "table.txt", report)
    print(f"\n{report}", end="", flush=True)
    return 1 if found else 0


def _found(rows: Rows) -> list[str]:
    return [f"{name}: {sentence}" for name, sentence in sentences(rows).items()]


def _anew(first: str | None, only: Sequence[str]) -> Sequence[str]:
    """Return the faults whose results are discarded."""
    if first:
        return _NAMES[_NAMES.index(first) :]
    return () if only is _NAMES else only


Ended = Callable[[], list[Run]]


def _in_turn(wanted: Iterable[Turn], results: Results) -> Generator[tuple[Turn, Ended]]:
    """Run the turns that this code has no results of; yield each turn with a function that awaits its runs.

    Turns overlap by one: while a turn comes to rest without load, the next one has the machine. A turn is yielded after
    the next one's load has ended, so that drawing does not disturb a load.
    """
    with ExitStack() as interrupted:
        before: tuple[Turn, Ended] | None = None
        for turn in wanted:
            if results.are_current(turn):
                ended: Ended = partial(results.of_turn, turn)
            else:
                ended = _begun(turn, results, interrupted.enter_context(ExitStack()))
            if before:
                yield before
            before = turn, ended
        if before:
            yield before


def _begun(turn: Turn, results: Results, running: ExitStack) -> Ended:
    """Run a turn, each policy in its own process, until the loads have ended; `running` stops the processes."""
    name, plan = turn.fault.name, json.dumps(asdict(results.plan.of_each(len(turn.policies))))
    started: dict[Path, subprocess.Popen[bytes]] = {}
    ends, end = os.pipe()
    for policy in turn.policies:
        path = results.folder / f"{name}.{policy}.run"
        log = path.with_suffix(".log")
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "chaos.run", name, policy, plan, str(path), str(end)]
        started[path] = processes.start(command, env=module_environment(), log=log, pass_fds=[end])
        running.callback(processes.stop, started[path], grace_s=_GRACE_S)
    os.close(end)
    for _ in started:  # a run that fails closes the pipe
        if select.select([ends], [], [], _LIMIT_S)[0]:
            os.read(ends, 1)
    os.close(ends)
    return partial(_ended, turn, started, running, results)


def _ended(
    turn: Turn, started: Mapping[Path, subprocess.Popen[bytes]], running: ExitStack, results: Results
) -> list[Run]:
    """Wait for the runs of a turn, store their results, and draw all results of the fault.

    Raises:
        RunFailedError: A run has ended without a result.
    """
    with running:
        for path, process in started.items():
            if status := _status(process):
                raise RunFailedError(f"{path.stem}: the run ended with {status}; see {path.with_suffix('.log')}")
    runs = [parsed(json.loads(path.read_text())) for path in started]
    for path in started:
        path.unlink()
    results.keep(turn.fault, runs)
    draw(turn.fault, results.runs(turn.fault), results.folder / f"{turn.fault.name}.png")
    return runs


def _status(process: subprocess.Popen[bytes]) -> int | str:
    """Wait for the end of a run; return its exit status, or a text if it exceeds the limit."""
    try:
        return process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"nothing after {_LIMIT_S:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
