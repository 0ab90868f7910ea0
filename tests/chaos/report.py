"""The report on the faults: findings, a table, and a picture of each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from burstcache_sim.report.drawing import (
    INK,
    LINE_COLOURS,
    TIER_COLOURS,
    TIER_NAMES,
    drawing,
    head,
    new_figure,
    ticks_1_2_5,
    write_image,
)
from burstcache_terminal.text import fixed_text, table_text
from chaos.excuses import PastFault
from chaos.faults import Fault
from chaos.load import OF_KEYS, Outcome
from chaos.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_P99_S = 0.4
_OWN_S = 0.05  # allowed on top of a delay of S3
_NAMED = 4  # at most, in a sentence
_GRID = {"left": 0.08, "right": 0.98, "top": 0.8, "bottom": 0.1, "hspace": 0.25}
_LEGEND: dict[str, Any] = {"fontsize": 7.5, "loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 4}
TIERS = {"s3": "S", "lambda": "L", "redis": "R"}  # the name in answers: the letter in pictures
FAULT_SHADE: dict[str, Any] = {"color": LINE_COLOURS[5], "alpha": 0.12, "linewidth": 0}
_TIMES = ("p50 ms", "p99 ms", "longest ms", "hits back s", "at rest s")
HEADER = ("fault", "policy", "reads", "failed", "excused", "wrong", *_TIMES, "left", "writes", "refused")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. Latencies are of key reads due during the fault [s]."""

    reads: int
    failed: int  # without excuse; all counts are of the whole run
    excused: int
    wrong: int
    writes: int
    refused: int  # writes that failed, or may have left copies behind
    refused_alone: int  # those that the fault does not explain
    p50_s: float
    p99_s: float
    longest_s: float
    why_failed: Counter[str]
    why_wrong: Counter[str]


def figures(fault: Fault, run: Run) -> Figures:
    """Return the figures of a run."""
    reads = run.reads
    of_keys = (each for each in reads if each.way in OF_KEYS)
    past = PastFault(
        fault, run.fault_began_s, run.fault_ended_s, run.counts.get(fault.excuse.one_each, 0) if fault.excuse else 0
    )
    during = [each.latency_s for each in of_keys if past.meets(each)]
    p50_s, p99_s, longest_s = np.percentile(during or [0.0], (50, 99, 100), method="higher")
    failed = [each for each in reads if each.is_failed]
    unexcused = past.unexcused(failed)
    wrong = [each for each in reads if each.is_wrong]
    refused = [each for each in run.outcomes if each.way == "write" and each.is_failed]
    return Figures(
        reads=len(reads),
        failed=len(unexcused),
        excused=len(failed) - len(unexcused),
        wrong=len(wrong),
        writes=len(run.outcomes) - len(reads),
        refused=len(refused),
        refused_alone=sum(not (fault.refuses_writes and past.is_near(each)) for each in refused),
        p50_s=float(p50_s),
        p99_s=float(p99_s),
        longest_s=float(longest_s),
        why_failed=_reasons(unexcused),
        why_wrong=_reasons(wrong),
    )


def _reasons(outcomes: Iterable[Outcome]) -> Counter[str]:
    return Counter(f"{each.way}: {each.error or each.status}" for each in outcomes)


def findings(fault: Fault, run: Run) -> list[str]:
    """Return the violated criteria of a run as clauses with figures."""
    found, most_s = figures(fault, run), max(MOST_P99_S, fault.delay_s + _OWN_S)
    back_s, left = run.ended_s - run.fault_ended_s, ", ".join(run.left[:_NAMED])
    checks = (
        (found.wrong, f"{found.wrong} of {found.reads} reads were wrong ({_named(found.why_wrong)})"),
        (found.failed, f"{found.failed} of {found.reads} reads failed ({_named(found.why_failed)})"),
        (
            found.p99_s > most_s,
            f"the p99 during the fault was {found.p99_s * 1e3:.0f} ms instead of {most_s * 1e3:.0f}",
        ),
        (found.refused_alone, f"{found.refused_alone} of {found.writes} writes were refused"),
        (not any(run.counts.values()), "the fault had no effect"),
        (fault.begins and run.hot_s is None, f"hot keys were not in {fault.begins} when the fault began"),
        (run.hits_back_s is None, f"hits were not back {back_s:.0f} s after the fault"),
        (run.rest_s is None, f"the stack did not come to rest in time, {len(run.left)} left ({left})"),
        (run.undelivered, f"{run.undelivered} events were left in the queues for a person"),
    )
    return [text for holds, text in checks if holds]


def _named(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(_NAMED))


def sentences(rows: Iterable[tuple[Fault, Run]]) -> dict[str, str]:
    """Return a sentence for each fault that fails the criteria, with figures and the policy."""
    clauses: dict[str, list[str]] = {}
    for fault, run in rows:
        if found := findings(fault, run):
            clauses.setdefault(fault.name, []).append(f"under {run.policy}, {' and '.join(found)}")
    return {name: f"{'; '.join(found)}." for name, found in clauses.items()}


def cells(fault: Fault, run: Run) -> tuple[str, ...]:
    """Return the cells of a run's row, without the fault's name."""
    found = figures(fault, run)
    counts = (found.reads, found.failed, found.excused, found.wrong)
    times_ms = (f"{each * 1e3:.0f}" for each in (found.p50_s, found.p99_s, found.longest_s))
    ends = ("-" if each is None else fixed_text(each, 1) for each in (run.hits_back_s, run.rest_s))
    after = (len(run.left) + run.undelivered, found.writes, found.refused)
    return (run.policy, *map(str, counts), *times_ms, *ends, *map(str, after))


def table(rows: Iterable[tuple[Fault, Run]]) -> str:
    """Return a text table with a row for each run."""
    lines = [(fault.name, *cells(fault, run)) for fault, run in rows]
    return table_text(HEADER, lines, right=range(2, len(HEADER)))


def draw(fault: Fault, runs: Sequence[Run], path: Path) -> None:
    """Draw latencies and tiers over time, a column for each policy, with the fault shaded."""
    with drawing():
        figure = new_figure(9, 4.8)
        head(figure, fault.name, fault.what)
        columns = figure.subplots(2, len(runs), sharex="col", squeeze=False, gridspec_kw=_GRID)
        for run, latency, share in zip(runs, *columns, strict=True):
            _draw_run(run, latency, share)
        columns[0][0].set_ylabel("latency [ms]")
        columns[1][0].set_ylabel("reads per second")
        columns[1][-1].legend(**_LEGEND)
        write_image(figure, path)


def _draw_run(run: Run, latency: Axes, share: Axes) -> None:
    reads = [each for each in run.reads if each.way in OF_KEYS]
    seconds = np.array([floor(each.due_s - run.fault_began_s) for each in reads])
    every = range(int(seconds.min()), int(seconds.max()) + 1)
    times_ms = np.array([each.latency_s * 1e3 for each in reads])
    for quantile, colour in ((50, LINE_COLOURS[0]), (99, LINE_COLOURS[1])):
        values = [
            np.percentile(times_ms[seconds == second], quantile) if (seconds == second).any() else np.nan
            for second in every
        ]
        latency.plot(every, values, color=colour, label=f"p{quantile}")
    failed = [(each.due_s - run.fault_began_s, each.latency_s * 1e3) for each in reads if each.is_failed]
    latency.plot(*zip(*failed, strict=True) if failed else ((), ()), "x", color=INK, markersize=4, label="failed")
    bottom = np.zeros(len(every))
    for tier, letter in TIERS.items():
        counted = Counter(second for second, each in zip(seconds, reads, strict=True) if each.tier == tier)
        heights = np.array([counted[second] for second in every])
        share.bar(every, heights, 1.0, bottom, color=TIER_COLOURS[letter], label=TIER_NAMES[letter])
        bottom += heights
    for axes in (latency, share):
        axes.axvspan(0, run.fault_ended_s - run.fault_began_s, **FAULT_SHADE)
    ticks_1_2_5(latency)
    latency.set_title(run.policy, loc="left", fontweight="bold")
    latency.legend(**_LEGEND)
    share.set_xlabel("seconds after the fault's begin")
