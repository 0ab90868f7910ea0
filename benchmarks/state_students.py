"""Kumar's second case study, 20 times: what one function writes, another one reads after the database has slept.

    python -m benchmarks.state_students docs/images/state-students.png

The workflow is that of `examples/case_studies`, in a local run whose instances boot in a stated time; on AWS an
instance takes about half a minute. Its own history says how long each part took. Each time another student is written.

Source:
    Kumar 2022, section 6.2: 20 of 20 found what was written; 6.1: his container starts in about 2 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.state_operations import DATABASE, PARAMETERS
from benchmarks.state_reaction import KUMAR_S, wait_until_asleep
from benchmarks.support.common import PROJECT, environment
from benchmarks.support.outcome import Progress, Table, add_options, leave
from burstcache.queries.history import Step, steps_of
from burstcache_sim.report.drawing import INK, LINE_COLOURS, ticks_1_2_5

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_local.cloud import LocalCloud

_TIMES, _BOOT_S = 20, 1.0
_LOOK_EVERY_S = 0.05
# Each part begins with a state and ends with the next one's; the sleep is looked for every five seconds.
PARTS = {
    "wakes up": ("AcquireToWrite", "WriteStudent"),
    "is written": ("WriteStudent", "ReleaseAfterWrite"),
    "falls asleep": ("ReleaseAfterWrite", "AcquireToRead"),
    "wakes up again": ("AcquireToRead", "ReadStudent"),
    "is read": ("ReadStudent", "ReleaseAfterRead"),
}
_WAKES = ("wakes up", "wakes up again")


@dataclass(frozen=True, slots=True)
class Student:
    """One run of the workflow."""

    parts_s: dict[str, float]  # by part [s]
    is_found: bool  # whether what was read is what was written
    boots: int  # of the database, meanwhile


def parts_of(steps: Sequence[Step]) -> dict[str, float]:
    """Return the durations of the parts of an execution, by its history [s]."""
    entered_us: dict[str, int] = {}
    for step in steps:
        entered_us.setdefault(step.state, step.at_us)
    return {part: (entered_us[end] - entered_us[begin]) / 1e6 for part, (begin, end) in PARTS.items()}


def measure(times: int, progress: Progress) -> list[Student]:
    """Return the runs of the workflow."""
    from burstcache_local.cloud import LocalCloud, LocalOptions  # a second, which drawing alone does not take

    with LocalCloud(LocalOptions(boot_s=_BOOT_S, stop_s=0.2, parameters=PARAMETERS)) as cloud:
        application = cloud.deploy(PROJECT / "examples" / "case_studies" / "template.yaml", "case-studies")
        students = []
        for number in range(1, times + 1):
            students.append(_student(cloud, application.outputs["KeepAStudentArn"], number))
            progress.step("students, written and read after a sleep")
    return students


def _student(cloud: LocalCloud, machine_arn: str, number: int) -> Student:
    wait_until_asleep(cloud)
    states, student = cloud.client("stepfunctions"), {"studentID": str(number), "name": f"Student {number}"}
    boots = _boots(cloud)
    given = json.dumps({"database": DATABASE, "student": student})
    arn = states.start_execution(stateMachineArn=machine_arn, input=given)["executionArn"]
    while (ended := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
        time.sleep(_LOOK_EVERY_S)
    if ended["status"] != "SUCCEEDED":
        sys.exit(f"student {number}: {ended['status']}, {ended.get('error')}: {ended.get('cause')}")
    pages = states.get_paginator("get_execution_history").paginate(executionArn=arn)
    steps = steps_of(event for page in pages for event in page["events"])
    return Student(parts_of(steps), json.loads(ended["output"]) == student, _boots(cloud) - boots)


def _boots(cloud: LocalCloud) -> int:
    """Return the number of runs of the stack's nodes. Each booted one."""
    pages = cloud.client("stepfunctions").get_paginator("list_executions")
    return sum(len(page["executions"]) for page in pages.paginate(stateMachineArn=cloud.outputs["RedisNodeArn"]))


def table_of(students: Sequence[Student]) -> Table:
    """Return his values and ours."""
    found, slept = sum(each.is_found for each in students), sum(each.boots >= 2 for each in students)
    kumar = {part: f"about {KUMAR_S:g}" if part in _WAKES else "" for part in PARTS}
    rows = [
        ["Kumar: a container on the same machine", "20 of 20", *kumar.values()],
        [f"here, the instance boots in {_BOOT_S:g} s", f"{found} of {len(students)}", *map(_cell, _columns(students))],
    ]
    note = (
        f"The parts of the workflow in s, mean ± deviation. The database slept in between {slept} of {len(students)}"
        " times; the workflow looks every five seconds whether it does. Kumar gives the start of his container alone."
    )
    return Table(("Who and how", "Found what was written", *(f"It {part}" for part in PARTS)), 1, rows, note)


def _columns(students: Sequence[Student]) -> list[list[float]]:
    return [[each.parts_s[part] for each in students] for part in PARTS]


def _cell(values_s: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values_s):.2f}" if len(values_s) > 1 else ""
    return f"{statistics.mean(values_s):.2f}{deviation}"


def figure_of(students: Sequence[Student]) -> Figure:
    """Return the picture, for use within `drawing()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    for number, values_s in enumerate(_columns(students)):
        axes.plot([number] * len(values_s), values_s, "o", color=LINE_COLOURS[0], alpha=0.5, markeredgewidth=0)
    for number, part in enumerate(PARTS):
        if part in _WAKES:
            label = "Kumar's container starts" if number == 0 else "_"  # which is no label
            axes.hlines(KUMAR_S, number - 0.3, number + 0.3, INK, "--", linewidth=0.8, label=label)
    ticks_1_2_5(axes)
    axes.set_xticks(range(len(PARTS)), [f"it {part}" for part in PARTS])
    axes.set(ylabel="seconds", xlim=(-0.5, len(PARTS) - 0.5))
    axes.spines["right"].set_visible(False)
    axes.legend(fontsize=7.5, loc="upper right")
    return figure


def main() -> int:
    """Measure, print and draw; return 1 if a student was not found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--times", type=int, default=_TIMES, help="that a student is written and read (default: 20)")
    arguments = parser.parse_args()
    print(environment())
    students = measure(arguments.times, Progress(arguments.times, is_printed=arguments.page is not None))
    table = table_of(students)
    for row in (table.columns, *table.rows):
        print("  ".join(f"{cell:<24}" for cell in row))
    print(table.note)
    leave(arguments, table, lambda: figure_of(students))
    return 0 if all(each.is_found and each.boots >= 2 for each in students) else 1


if __name__ == "__main__":
    sys.exit(main())
