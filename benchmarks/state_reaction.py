"""From sleep to the first command: what a function waits for that finds its database off, and one that finds it on.

    python -m benchmarks.state_reaction docs/images/state-reaction.png

In a local run whose instances boot in a stated time; on AWS an instance takes about half a minute. What is measured is
what comes on top of it: the lease, the workflow that boots the node, Redis with what it has kept, the first command.
Each holder counts on from what the one before it has written.

Source:
    Kumar 2022, sections 6.1 and 6.2: his container starts in about 2 s, and 20 of 20 found what was written.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.state_operations import DATABASE, PARAMETERS, access_of
from benchmarks.support.common import environment
from benchmarks.support.outcome import Progress, Table, add_options, leave
from burstcache.state import state
from burstcache_sim.report.drawing import INK, LINE_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from burstcache_local.cloud import LocalCloud

_CYCLES = {0.0: 20, 5.0: 6}  # by the time that an instance takes to boot [s]
_LOOK_EVERY_S = 0.05
KUMAR_S = 2.0  # until his container has started


@dataclass(frozen=True, slots=True)
class Reactions:
    """How long the first command took after it was asked for [s]."""

    boot_s: float
    asleep_s: list[float]
    awake_s: list[float]  # another holds the database

    @property
    def columns_s(self) -> tuple[list[float], list[float], list[float]]:
        """Asleep, asleep without the boot, awake [s]."""
        return self.asleep_s, [each - self.boot_s for each in self.asleep_s], self.awake_s

    def line(self) -> str:
        """Return the printed row."""
        parts = (
            f"{statistics.mean(values):>6.2f} ± {statistics.stdev(values):<5.2f} {statistics.median(values):>6.2f}"
            for values in self.columns_s
        )
        return f"{self.boot_s:>6.1f}  {'   '.join(parts)}"


def measure(boot_s: float, cycles: int, progress: Progress) -> Reactions:
    """Return the reactions of a database whose instance boots in that time [s]."""
    from burstcache_local.cloud import LocalCloud, LocalOptions  # a second, which drawing alone does not take

    with LocalCloud(LocalOptions(boot_s=boot_s, stop_s=0.2, parameters=PARAMETERS)) as cloud:
        access, asleep_s, awake_s = access_of(cloud), [], []
        with state(DATABASE, **access) as redis:
            redis.set("sleeps", 0)  # the functions' environments are new
        for sleeps in range(1, cycles + 1):
            wait_until_asleep(cloud)
            began_s = time.perf_counter()
            with state(DATABASE, **access) as redis:
                if (found := redis.incr("sleeps")) != sleeps:
                    sys.exit(f"after {sleeps} sleeps the database counts {found}: it has lost what was written")
                asleep_s.append(time.perf_counter() - began_s)
                began_s = time.perf_counter()
                with state(DATABASE, **access) as other:
                    other.ping()
                    awake_s.append(time.perf_counter() - began_s)
            progress.step(f"sleeps of an instance that boots in {boot_s:g} s")
    return Reactions(boot_s, asleep_s, awake_s)


def wait_until_asleep(cloud: LocalCloud) -> None:
    """Return when the database is off."""
    question: dict[str, Any] = {"op": "release", "database": DATABASE, "holder": "nobody"}
    while cloud.invoke("StateFunction", question)["phase"] != "stopped":
        time.sleep(_LOOK_EVERY_S)


def table_of(all_reactions: list[Reactions]) -> Table:
    """Return his value and ours."""
    columns = ("Who and how", "Database off", "Off, without the boot", "Database on")
    rows = [["Kumar: his container starts", f"about {KUMAR_S:g}", "", ""]]
    for each in all_reactions:
        cells = (f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" for values in each.columns_s)
        rows.append([f"here, the instance boots in {each.boot_s:g} s", *cells])
    cycles = sum(len(each.asleep_s) for each in all_reactions)
    note = (
        "From the question for a database to its first answered command, in s, mean ± deviation. What was written"
        f" before a sleep was found after it {cycles} of {cycles} times (Kumar: 20 of 20)."
    )
    return Table(columns, 1, rows, note)


def figure_of(all_reactions: list[Reactions]) -> Figure:
    """Return the picture, for use within `drawing()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.axhline(KUMAR_S, color=INK, linewidth=0.8, linestyle="--", label="Kumar's container starts")
    for number, reactions in enumerate(all_reactions):
        first = number == 0  # whose marks stand in the legend
        boots = "the instance boots" if first else "_"  # which is no label
        axes.hlines(reactions.boot_s, number - 0.3, number + 0.3, INK, ":", linewidth=0.8, label=boots)
        for values, shift, colour, name in (
            (reactions.asleep_s, -0.1, LINE_COLOURS[0], "asleep"),
            (reactions.awake_s, 0.1, LINE_COLOURS[1], "awake"),
        ):
            places = [number + shift] * len(values)
            axes.plot(places, values, "o", color=colour, alpha=0.5, markeredgewidth=0, label=name if first else "_")
    axes.set_xticks(range(len(all_reactions)), [f"boots in {each.boot_s:g} s" for each in all_reactions])
    axes.set(ylabel="to the first command [s]", ylim=(0, None), xlim=(-0.5, len(all_reactions) - 0.5))
    axes.spines["right"].set_visible(False)
    axes.legend(fontsize=7.5, loc="upper left")
    return figure


def main() -> int:
    """Measure, print and draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--cycles", type=int, help="of each time to boot, at least 2 (default: 20 and 6)")
    arguments = parser.parse_args()
    print(environment())
    print("\ns: mean ± deviation, median\n  boot  asleep                   asleep, without boot     awake")
    all_reactions = []
    cycles_of = {boot_s: arguments.cycles or cycles for boot_s, cycles in _CYCLES.items()}
    progress = Progress(sum(cycles_of.values()), is_printed=arguments.page is not None)
    for boot_s, cycles in cycles_of.items():
        all_reactions.append(measure(boot_s, cycles, progress))
        print(all_reactions[-1].line(), flush=True)
    leave(arguments, table_of(all_reactions), lambda: figure_of(all_reactions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
