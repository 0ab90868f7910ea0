"""Record and check histories, piece by piece: `python -m consistency` (`make consistency`).

Each piece is a stack of its own under one of the settings. Its history is checked and thrown away; what it was is
kept as a line of `pieces.jsonl`, by which an interrupted run goes on. Exit codes: 0 no violation, 1 a violation, whose
history is kept, 2 usage error.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

import conftest as conftest  # makes a process of many worlds quick
from consistency.bounds import Violation, violations
from consistency.history import Operation, write_history
from consistency.load import Clients
from consistency.setting import SETTINGS, Setting
from consistency.stage import Stage
from support.aws import mocked_aws

KEYS = ("a", "b", "c", "d")
DIRECT_STALE_US = 3_000_000  # after S3 has acknowledged a write of which nobody was told
MEMORY_STALE_US = 2_000_000  # `max_stale_ms` of a reader's memory
_HANGS_AFTER_S = 900  # a piece takes a minute


def main(arguments: Sequence[str]) -> int:
    """Run the pieces that are missing; return the exit code."""
    options = _options(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "pieces.jsonl"
    pieces = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for number in itertools.count(options.first, options.step):
        done = sum(piece["operations"] for piece in pieces)
        if done >= options.operations:
            break
        if any(piece["piece"] == number for piece in pieces):
            continue
        piece, problem = run_piece(number, options.each, options.folder, options.checker)
        print(json.dumps(piece), flush=True)
        if problem:
            print(problem)
            return 1
        with kept.open("a") as file:
            print(json.dumps(piece), file=file)
        pieces = [json.loads(line) for line in kept.read_text().splitlines()]
    print(summary(pieces))
    return 0


def run_piece(number: int, operations: int, folder: Path, checker: Path | None) -> tuple[dict[str, object], str]:
    """Record a history and check it; return what it was, and what is wrong with it."""
    setting = SETTINGS[number % len(SETTINGS)]
    faulthandler.dump_traceback_later(_HANGS_AFTER_S, exit=True)
    history, passed = record(setting, seed=number, operations=operations)
    faulthandler.cancel_dump_traceback_later()
    reads = Counter(each.tier for each in history if each.kind == "read" and each.is_known)
    piece = {
        "piece": number,
        **asdict(setting),
        "operations": len(history),
        "writes": sum(each.kind != "read" for each in history),
        "unanswered_writes": sum(each.kind != "read" and not each.is_known for each in history),
        "failed_reads": sum(each.kind == "read" and not each.is_known for each in history),
        "reads": dict(reads),
        "passed": dict(passed),
    }
    path = folder / f"history-{number}.jsonl"
    write_history(path, history)
    problem = check_order(path, checker) if setting.way == "api" and checker else ""
    problem = problem or check(history)
    if piece["failed_reads"]:
        problem = problem or f"{piece['failed_reads']} reads failed: {path}"
    if not problem:
        path.unlink()
    return piece, problem


def record(setting: Setting, *, seed: int, operations: int) -> tuple[list[Operation], Counter[str]]:
    """Return the history of a stack's clients, and how often each state was passed."""
    with pytest.MonkeyPatch.context() as patch, mocked_aws():
        stage = Stage(
            patch,
            policy=setting.live_policy(),
            seed=seed,
            has_express=setting.has_express,
            has_faults=setting.has_faults,
        )
        try:
            history = Clients(stage, KEYS, operations=operations, way=setting.way).run()
            return history, stage.passed()
        finally:
            stage.close()


def check(history: Sequence[Operation], *, many_readers: Sequence[str] = ()) -> str:
    """Return what the bounds have against a history; empty: nothing.

    Args:
        history: What was done.
        many_readers: Clients behind which there are several readers, of which nobody knows which one answered.
    """
    found = violations(history, stale_us=_stale_us, forward=lambda read: read.client not in many_readers)
    return next(map(described, found), "")


def check_order(history: Path, checker: Path) -> str:
    """Return what the other checker has against a history of API writes; empty: nothing."""
    checked = subprocess.run([checker, history], capture_output=True, text=True, check=False)
    return checked.stdout + checked.stderr if checked.returncode else ""


def _stale_us(read: Operation) -> int:
    if read.path == "direct":
        return DIRECT_STALE_US
    return MEMORY_STALE_US if read.tier == "memory" else 0


def described(violation: Violation) -> str:
    """Return a violation as text: its rule, and its operations with times from the first one's start [ms]."""
    begin_us = violation.history[0].start_us
    lines = [f"VIOLATION: {violation.rule}, by {violation.by_us / 1000:.3f} ms"]
    for each in violation.history:
        start, end = (each.start_us - begin_us) / 1000, (each.end_us - begin_us) / 1000
        value = "nothing" if each.value is None else str(each.value)
        lines.append(
            f"{start:10.3f} to {end:10.3f} ms  {each.client:<9} {each.kind:<6} {value:<8} {each.tier}".rstrip()
        )
    return "\n".join(lines)


def summary(pieces: Sequence[dict[str, object]]) -> str:
    """Return what all pieces were, together."""
    sums: Counter[str] = Counter()
    for piece in pieces:
        for name in ("operations", "writes", "unanswered_writes", "failed_reads"):
            sums[name] += int(str(piece[name]))
        for name in ("reads", "passed"):
            counted = piece[name]
            assert isinstance(counted, dict)
            sums.update({f"{name} {what}": count for what, count in counted.items()})
    return "\n".join([f"{len(pieces)} pieces, 0 violations", *(f"{count:>9,} {name}" for name, count in sums.items())])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="consistency", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000, help="of all pieces together")
    parser.add_argument("--each", type=int, default=20_000, help="operations of a piece")
    parser.add_argument("--folder", type=Path, default=Path("build/consistency"), help="where pieces are counted")
    parser.add_argument("--checker", type=Path, help="the program that checks API writes; none: bounds alone")
    parser.add_argument("--first", type=int, default=0, help="number of the first piece, the seed of its chances")
    parser.add_argument("--step", type=int, default=1, help="2: every other piece, for two runs at a time")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    os.environ["POWERTOOLS_LOG_LEVEL"] = "CRITICAL"
    sys.exit(main(sys.argv[1:]))
