"""The main program of the consistency checks: record and check histories, piece by piece (`make consistency`).

Each piece is a stack of its own under one of the settings. Its history is deleted after the check; a line of
`pieces.jsonl` sums it up. An interrupted run resumes from those lines, and ignores pieces of other code. Exit codes: 0
no violation, 1 a violation, whose history is kept, or a state that no key or node has entered, 2 usage error.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.node_kinds import NODE_KINDS, NodeKind
from chaos.code import code_of
from consistency.bounds import Violation, violations
from consistency.history import Event, Operation, overlapping, write_events, write_history
from consistency.load import Clients
from consistency.programs import IN_SLICES
from consistency.setting import SETTINGS, Setting
from consistency.stage import ILL, Stage
from support import quick
from support.aws import mocked_aws
from support.project import ROOT

KEYS = ("a", "b", "c", "d")
DIRECT_STALE_US = 3_000_000  # after S3's acknowledgement of a direct write, with faults too
MEMORY_STALE_US = 2_000_000  # `max_stale_ms` of a reader's memory
_HANGS_AFTER_S = 900  # a piece takes a minute
_AROUND_US = 8_000_000  # before a stale read: events that are printed
_SUITE = ("tests/consistency", "tests/support", "tools/burstcache_local")
COUNTS = ("operations", "writes", "overlapping_writes", "conditional_writes", "refused_writes", "unanswered_writes")
# States that histories need not enter: the reason.
UNENTERED = {
    "redis_node: SaveNode": "only databases of state are saved, and readers and writers do not use those",
}


def main(arguments: Sequence[str]) -> int:
    """Run the pieces that are missing; return the exit code."""
    quick.apply()
    options = _options(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "pieces.jsonl"
    code = code_of(also=_SUITE)
    pieces = _kept(kept, code)
    for number in itertools.count(options.first, options.step):
        done = sum(piece["operations"] for piece in pieces)
        if done >= options.operations:
            break
        if any(piece["piece"] == number for piece in pieces):
            continue
        piece, problem = run_piece(
            number, options.each, options.folder, options.checker, options.only_ill, options.redis_on
        )
        print(json.dumps(piece), flush=True)
        if problem:
            print(problem)
            return 1
        with kept.open("a") as file:
            print(json.dumps({"code": code, **piece}), file=file)
        pieces = _kept(kept, code)
    print(summary(pieces))
    if len({piece["piece"] % len(SETTINGS) for piece in pieces}) < len(SETTINGS):
        return 0  # too few for all states
    missed = never_entered(pieces)
    print("\n".join(f"NEVER ENTERED: {state}" for state in missed))
    return 1 if missed else 0


def _kept(path: Path, code: str) -> list[dict[str, Any]]:
    """Return the stored pieces of a version of the code."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [piece for piece in map(json.loads, lines) if piece.get("code") == code]


def never_entered(pieces: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the states of the deployed machines that no piece entered, except those of `UNENTERED`."""
    entered = {state for piece in pieces for state in piece["passed"]}
    return [state for state in states() if state not in entered and state not in UNENTERED]


def states() -> Iterator[str]:
    """Yield the states of both state machines, as `Stage.passed` names them."""
    for machine in ("key_lifecycle", "redis_node"):
        definition = json.loads((ROOT / f"statemachines/{machine}.asl.json").read_text())
        yield from (f"{machine}: {state}" for state in definition["States"])


def run_piece(
    number: int, operations: int, folder: Path, checker: Path | None, only_ill: str = "", redis_on: NodeKind = "ec2"
) -> tuple[dict[str, object], str]:
    """Record a history and check it; return its summary, and its problem or an empty text."""
    setting = SETTINGS[number % len(SETTINGS)]
    faulthandler.dump_traceback_later(_HANGS_AFTER_S, exit=True)
    history, passed, events = record(setting, seed=number, operations=operations, only_ill=only_ill, redis_on=redis_on)
    faulthandler.cancel_dump_traceback_later()
    reads = Counter(each.tier for each in history if each.kind == "read" and each.is_known)
    piece = {
        "piece": number,
        **asdict(setting),
        "operations": len(history),
        "writes": sum(each.is_write for each in history),
        "overlapping_writes": overlapping(history),
        "conditional_writes": sum(each.is_write and each.only_over is not None for each in history),
        "refused_writes": sum(each.kind == "refused" for each in history),
        "unanswered_writes": sum(each.is_write and not each.is_known for each in history),
        "failed_reads": sum(each.kind == "read" and not each.is_known for each in history),
        "reads": dict(reads),
        "oldest_ms": _oldest_ms(history),
        "passed": dict(passed),
    }
    path = folder / f"history-{number}.jsonl"
    write_history(path, history)
    problem = check_order(path, checker) if setting.way == "api" and checker else ""
    problem = problem or check(history, events=events)
    if piece["failed_reads"]:
        problem = problem or f"{piece['failed_reads']} reads failed: {path}"
    if problem:
        write_events(folder / f"events-{number}.jsonl", events)
    else:
        path.unlink()
    return piece, problem


def record(
    setting: Setting, *, seed: int, operations: int, only_ill: str = "", redis_on: NodeKind = "ec2"
) -> tuple[list[Operation], Counter[str], list[Event]]:
    """Return the history of a stack's clients, counts of entered states, and the stack's events."""
    with pytest.MonkeyPatch.context() as patch, mocked_aws():
        stage = Stage(
            patch,
            policy=setting.live_policy(),
            seed=seed,
            has_express=setting.has_express,
            has_faults=setting.has_faults,
            has_queue=setting.has_queue,
            only_ill=only_ill,
            redis_on=redis_on,
        )
        try:
            clients = Clients(stage, KEYS, operations=operations, way=setting.way)
            history = clients.run()
            ways = Counter({f"slices read by: {way}": count for way, count in clients.ways.items()})
            return history, stage.passed() + ways, stage.events
        finally:
            stage.close()


def check(history: Sequence[Operation], *, many_readers: Sequence[str] = (), events: Sequence[Event] = ()) -> str:
    """Return the first violation of the bounds in a history as text; empty: none.

    Args:
        history: The operations.
        many_readers: Clients that stand for several readers, and need not be monotonic.
        events: The stack's events, for the text.
    """

    def stale_us(read: Operation) -> int:
        if read.path == "direct":
            return DIRECT_STALE_US
        return MEMORY_STALE_US if read.tier == "memory" or read.tier.startswith(IN_SLICES) else 0

    found = violations(history, stale_us=stale_us, forward=lambda read: read.client not in many_readers)
    return next((described(violation, events) for violation in found), "")


def _oldest_ms(history: Sequence[Operation]) -> dict[str, float]:
    """Return the greatest staleness by tier: from a newer write's acknowledgement to the read's start."""
    oldest: dict[str, float] = {}
    for each in violations(history, stale_us=lambda _: 0, forward=lambda _: False):
        tier = each.history[-1].tier
        if math.isfinite(each.by_us):
            oldest[tier] = max(oldest.get(tier, 0), round(each.by_us / 1000))
    return oldest


def check_order(history: Path, checker: Path) -> str:
    """Return the violation that porcupine finds in a history of API writes; empty: none."""
    checked = subprocess.run([checker, history], capture_output=True, text=True, check=False)
    return checked.stdout + checked.stderr if checked.returncode else ""


def described(violation: Violation, events: Sequence[Event] = ()) -> str:
    """Return a violation as text: rule, operations and events, with times from the first start [ms]."""
    begin_us = violation.history[0].start_us
    lines = [f"VIOLATION: {violation.rule}, by {violation.by_us / 1000:.3f} ms"]
    for each in violation.history:
        start, end = (each.start_us - begin_us) / 1000, (each.end_us - begin_us) / 1000
        value = "nothing" if each.value is None else str(each.value)
        lines.append(
            f"{start:10.3f} to {end:10.3f} ms  {each.client:<9} {each.kind:<6} {value:<8} {each.tier}".rstrip()
        )
    read = violation.history[-1]
    lines += [
        f"{(event.at_us - begin_us) / 1000:10.3f} ms  {event.what}"
        for event in events
        if read.start_us - _AROUND_US <= event.at_us <= read.end_us and event.key in ("", read.key)
    ]
    return "\n".join(lines)


def summary(pieces: Sequence[Mapping[str, Any]]) -> str:
    """Return the sums over all pieces as text."""
    sums: Counter[str] = Counter()
    oldest_ms: dict[str, float] = {}
    for piece in pieces:
        sums.update({name: piece[name] for name in (*COUNTS, "failed_reads")})
        for name in ("reads", "passed"):
            sums.update({f"{name} {what}": count for what, count in piece[name].items()})
        kind = f"{piece['way']} writes, {'with' if piece['has_faults'] else 'without'} faults"
        for tier, age_ms in piece["oldest_ms"].items():
            oldest_ms[f"{kind}: {tier}"] = max(oldest_ms.get(f"{kind}: {tier}", 0), age_ms)
    lines = [f"{count:>9,} {name}" for name, count in sums.items()]
    lines += [f"{age_ms:>9,} ms greatest staleness, {where}" for where, age_ms in sorted(oldest_ms.items())]
    return "\n".join([f"{len(pieces)} pieces, 0 violations", *lines])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="consistency", description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000, help="operations of all pieces together")
    parser.add_argument("--each", type=int, default=20_000, help="operations of each piece")
    parser.add_argument("--folder", type=Path, default=Path("build/consistency"), help="folder of results")
    parser.add_argument("--checker", type=Path, help="program that checks API writes (default: bounds only)")
    parser.add_argument("--first", type=int, default=0, help="number of the first piece, also its seed")
    parser.add_argument("--only-ill", choices=ILL, default="", help="the only part that fails (default: all parts)")
    parser.add_argument(
        "--redis-on", choices=NODE_KINDS, default="ec2", help="what the nodes run on (default: %(default)s)"
    )
    parser.add_argument("--step", type=int, default=1, help="2: every other piece, for two parallel runs")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    os.environ["POWERTOOLS_LOG_LEVEL"] = "CRITICAL"
    sys.exit(main(sys.argv[1:]))
