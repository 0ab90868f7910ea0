"""Hours of load with keys that come and go and a fault every minute: does a read fail, or anything grow?

    PYTHONPATH=tests python -m chaos.soak [--minutes 30] [--legs 4] [--out DIR] [--reads-per-s N]

It goes leg by leg, under each policy in turn, each in a local run of its own. A leg leaves a result, `leg-N.json`; an
interrupted soak goes on with the leg that it was in. Exit code 1 if anything was found that must not be.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

from benchmarks.common import PROJECT, environment
from benchmarks.growth import Sample, growths, sample
from chaos.faults import FAULTS, Fault
from chaos.leftovers import rows, running
from chaos.load import HOT_SHARE, KEYS, Outcome
from chaos.rate import SHARE, measured_per_s
from chaos.run import POLICIES, Plan, hot_keys, loaded, staged, waited
from chaos.stage import Part, Stage

_PARTS: frozenset[Part] = frozenset({"results"})
_FAULTS = tuple(fault for fault in FAULTS if fault.parts <= _PARTS)
_CALM_S, _FAULT_S, _MINUTE_S = 20.0, 10.0, 60.0
_STEP = 10  # how many keys further the hot ones are each minute
_SLACK_S = 2.0  # of what was under way when a fault began or ended
_REST_S = 120.0


@dataclass(frozen=True, slots=True)
class Break:
    """A fault that has befallen a leg; instants are since 1970 [s]."""

    fault: Fault
    began_s: float
    ended_s: float

    def meets(self, outcome: Outcome) -> bool:
        """Whether a request was due while it lasted."""
        return self.began_s <= outcome.due_s < self.ended_s

    def excuses(self, outcome: Outcome) -> bool:
        """Whether it may have caused a failure by what it is."""
        is_meanwhile = self.began_s - _SLACK_S <= outcome.due_s <= self.ended_s + _SLACK_S
        return is_meanwhile and self.fault.excuses(outcome)


def leg(policy: str, plan: Plan, minutes: int, first_fault: int) -> dict[str, object]:
    """Run a leg and return its figures; whatever is under `problems` must not be."""
    breaks: list[Break] = []
    samples: list[Sample] = []
    with staged(policy, parts=_PARTS) as stage:
        with loaded(stage, plan) as load:
            faults = cycle((*_FAULTS[first_fault:], *_FAULTS[:first_fault]))
            for minute, fault in zip(range(minutes), faults, strict=False):
                ends_s = time.monotonic() + _MINUTE_S
                load.set(plan.reads_per_s, HOT_SHARE, minute * _STEP % len(KEYS))
                time.sleep(_CALM_S)
                breaks.append(broken(stage, fault, _FAULT_S))
                samples.append(sample(os.getpid(), minute * _MINUTE_S, rows(stage)))
                time.sleep(max(0.0, ends_s - time.monotonic()))
        rest_s = waited(lambda: not running(stage), _REST_S)
        left = running(stage)
    reads = [each for each in load.outcomes if each.way != "write"]
    failed = [each for each in reads if each.is_failed and not any(past.excuses(each) for past in breaks)]
    problems = [
        *(f"wrong: {each}" for each in reads if each.is_wrong),
        *(f"failed: {each}" for each in failed),
        *growths(samples),
        *(f"left: {what}" for what in left),
    ]
    return {
        "policy": policy,
        "environment": environment(),
        "reads_per_s": plan.reads_per_s,
        "reads": len(reads),
        "tiers": Counter(each.tier for each in reads),
        "excused": sum(each.is_failed for each in reads) - len(failed),
        "faults": [each.fault.name for each in breaks],
        "samples": [asdict(each) for each in samples],
        "rest_s": rest_s,
        "problems": problems,
    }


def broken(stage: Stage, fault: Fault, for_s: float) -> Break:
    """Let a fault befall a local run for some seconds."""
    began_s = time.time()
    with fault.breaks(stage):
        time.sleep(for_s)
    return Break(fault, began_s, time.time())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the legs that are not done; return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos.soak", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--minutes", type=int, default=30, metavar="N", help="of each leg (default: 30)")
    add("--legs", type=int, default=4, metavar="N", help="how many (default: 4)")
    add("--out", type=Path, default=PROJECT / "build/soak", metavar="DIR", help="where results go")
    add("--reads-per-s", type=float, metavar="N", help="instead of 70 %% of what is measured first")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    per_s = given.reads_per_s or SHARE * measured_per_s(given.out)
    print(f"{environment()}, {per_s:.1f} reads a second", flush=True)
    found = 0
    for number in range(given.legs):
        path = given.out / f"leg-{number}.json"
        if not path.exists():
            policy, first = list(POLICIES)[number % len(POLICIES)], number * given.minutes % len(_FAULTS)
            figures = leg(policy, Plan(per_s, hot_keys=hot_keys(per_s)), given.minutes, first)
            path.write_text(json.dumps(figures, indent=1))
        figures = json.loads(path.read_text())
        problems = figures["problems"]
        print(
            f"leg {number}: {figures['reads']} reads, {figures['excused']} excused, {len(problems)} problems",
            flush=True,
        )
        for problem in problems[:10]:
            print(f"  {problem}", flush=True)
        found += len(problems)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
