"""The soak test: hours of load with changing hot keys and a fault every minute, checked for failed reads and growth.

    PYTHONPATH=tests python -m chaos.soak [--minutes 60] [--legs 2] [--out DIR] [--reads-per-s N]

Legs alternate between the policies, each in a local run of its own. A leg leaves a result, `leg-N.json`. An interrupted
soak repeats its current leg. Exit code 1: a leg has problems.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path

from benchmarks.support.common import PROJECT, environment
from benchmarks.support.growth import Sample, growths, quarters, sample
from chaos.code import code_of
from chaos.excuses import PastFault, unexcused
from chaos.faults import FAULTS, Fault
from chaos.leftovers import rows, running, undelivered
from chaos.load import HOT_SHARE, KEYS, Outcome
from chaos.rate import SHARE, measured_per_s
from chaos.results import exit_code, write
from chaos.run import POLICIES, Plan, hot_keys, loaded, staged, waited
from chaos.stage import Part, Stage

_PARTS: frozenset[Part] = frozenset({"results"})
_FAULTS = tuple(fault for fault in FAULTS if fault.redis_on == "ec2" and not fault.name.startswith("pool-"))
_CALM_S, _FAULT_S, _MINUTE_S = 20.0, 10.0, 60.0
_STEP = 10  # keys by which the hot ones shift each minute
_REST_S = 120.0
_LEAST_MINUTES = 2  # with two samples a minute


@dataclass(slots=True)
class Tally:
    """Counts of reads: all outcomes of an hour would take more memory than the leaks to detect."""

    tiers: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)
    wrong: list[Outcome] = field(default_factory=list)

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count outcomes."""
        for each in outcomes:
            if each.way != "write":
                self.tiers[each.tier] += 1
                if each.is_failed:
                    self.failed.append(each)
                if each.is_wrong:
                    self.wrong.append(each)


def leg(policy: str, plan: Plan, minutes: int, first_fault: int) -> dict[str, object]:
    """Run a leg and return its figures; a sound leg has no `problems`."""
    code, breaks = code_of(), list[PastFault]()
    samples: list[Sample] = []
    began_s = time.monotonic()

    def look() -> None:
        samples.append(sample(os.getpid(), time.monotonic() - began_s, rows(stage)))

    tally = Tally()
    with staged(policy, parts=_PARTS, parameters={"RedisOn": "ec2"}) as stage:  # some faults are of instances
        with loaded(stage, plan) as load:
            faults = cycle((*_FAULTS[first_fault:], *_FAULTS[:first_fault]))
            for minute, fault in zip(range(minutes), faults, strict=False):
                ends_s = time.monotonic() + _MINUTE_S
                load.set(plan.reads_per_s, HOT_SHARE, minute * _STEP % len(KEYS))
                time.sleep(_CALM_S)
                look()
                breaks.append(broken(stage, fault, _FAULT_S))
                time.sleep(max(0.0, ends_s - time.monotonic()))
                tally.add(load.take())
                look()
        tally.add(load.take())
        rest_s = waited(lambda: not any(running(stage)), _REST_S)
        left, owed = [*running(stage)], [*undelivered(stage)]
    failed = unexcused(tally.failed, breaks)
    problems = [
        *(f"wrong: {each}" for each in tally.wrong),
        *(f"failed: {each}" for each in failed),
        *growths(samples),
        *(f"left: {what}" for what in left),
        *(f"owed: {what}" for what in owed),
    ]
    return {
        "policy": policy,
        "environment": environment(),
        "code": code,
        "minutes": minutes,
        "reads_per_s": plan.reads_per_s,
        "reads": tally.tiers.total(),
        "tiers": tally.tiers,
        "excused": len(tally.failed) - len(failed),
        "faults": [each.fault.name for each in breaks],
        "samples": [asdict(each) for each in samples],
        "quarters": quarters(samples),
        "rest_s": rest_s,
        "problems": problems,
    }


def broken(stage: Stage, fault: Fault, for_s: float) -> PastFault:
    """Inject a fault into a local run for some seconds."""
    counted = fault.excuse.one_each if fault.excuse else ""
    began_s, before = time.time(), stage.counts[counted]
    with fault.breaks(stage):
        time.sleep(for_s)
    return PastFault(fault, began_s, time.time(), stage.counts[counted] - before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the legs that are not done; return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos.soak", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--minutes", type=int, default=60, metavar="N", help="of each leg (default: 60)")
    add("--legs", type=int, default=2, metavar="N", help="how many (default: 2)")
    add("--out", type=Path, default=PROJECT / "build/soak", metavar="DIR", help="folder of the results")
    add("--reads-per-s", type=float, metavar="N", help="default: 70 %% of the rate that S3 sustains")
    given = parser.parse_args(arguments)
    if given.minutes < _LEAST_MINUTES:
        parser.error(f"--minutes {given.minutes}: expected at least {_LEAST_MINUTES}, to detect growth")
    return exit_code(lambda: _legs(given), program="soak", if_interrupted="the next soak repeats this leg")


def _legs(given: argparse.Namespace) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    per_s = given.reads_per_s or SHARE * measured_per_s(given.out)
    print(f"{environment()}, {per_s:.1f} reads a second", flush=True)
    found = 0
    for number in range(given.legs):
        path = given.out / f"leg-{number}.json"
        figures = json.loads(path.read_text()) if path.exists() else {}
        asked = {"minutes": given.minutes, "reads_per_s": per_s, "code": code_of()}
        if any(figures.get(name) != value for name, value in asked.items()):
            policy, first = list(POLICIES)[number % len(POLICIES)], number * given.minutes % len(_FAULTS)
            figures = leg(policy, Plan(per_s, hot_keys=hot_keys(per_s)), given.minutes, first)
            write(path, json.dumps(figures, indent=1))
        problems = figures["problems"]
        print(
            f"leg {number}: {figures['reads']} reads, {figures['excused']} excused, {len(problems)} problems",
            flush=True,
        )
        for name, (before, after) in figures["quarters"].items():
            print(f"  {name}: at least {before:.0f} in the second quarter, {after:.0f} in the last", flush=True)
        for problem in problems[:10]:
            print(f"  {problem}", flush=True)
        found += len(problems)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
