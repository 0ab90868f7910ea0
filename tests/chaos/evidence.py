"""The evidence page of all faults and its pictures, from the results of `make chaos`: `make chaos-evidence`.

    PYTHONPATH=tests python -m chaos.evidence [--results DIR]

It rewrites the part between the marks of `docs/evidence/faults.md`, `docs/images/faults.png` and
`docs/images/faults-over-time.png`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from burstcache_sim.report.drawing import INK, LINE_COLOURS, drawing, head, new_figure, plain, write_image
from chaos.code import code_of
from chaos.faults import FAULTS
from chaos.rate import RATE_NAME, SHARE
from chaos.report import HEADER, MOST_P99_S, cells, figures, sentences
from chaos.results import Results, Rows
from chaos.run import POLICIES
from chaos.sheet import draw_sheet

_PROJECT = Path(__file__).parents[2]
_PAGE, _IMAGES = _PROJECT / "docs/evidence/faults.md", _PROJECT / "docs/images"
_FIGURES, _SHEET = "faults.png", "faults-over-time.png"
_COLUMNS = ("p99 ms", "longest ms", "hits back s")
_COUNTS = ("failed", "excused", "wrong", "left", "refused")  # 0 in most runs
_STOPPED = "stopped in "
_BEGIN, _END = "<!-- results -->\n", "<!-- end of results -->\n"


def with_results(page: str, results: Results) -> str:
    """Return the page with its results replaced by these."""
    before, _, rest = page.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{results_text(results)}\n{_END}{rest.partition(_END)[2]}"


def results_text(results: Results) -> str:
    """Return the results of all faults as Markdown: machine and load, a table, pictures and findings."""
    rows, plan = results.rows(), results.plan
    machines = dict.fromkeys(run.machine for _, run in rows if run.machine)
    loads = [run.load for _, run in rows if run.load]
    load = f", load average {min(loads):.0f} to {max(loads):.0f}" if loads else ""
    measured = results.folder / RATE_NAME
    rate = f"S3 alone sustains {float(measured.read_text()):.1f} reads/s. " if measured.exists() else ""
    share = f" ({SHARE:.0%} of that)" if rate else ""
    done, found = len({fault.name for fault, _ in rows}), sentences(rows)
    former = [fault.name for fault in FAULTS if any(run.code != code_of() for run in results.runs(fault))]
    missing = [fault.name for fault in FAULTS if not results.runs(fault)]
    parts = [
        f"{'; '.join(machines)}{load}. {rate}Load: {plan.reads_per_s:.1f} reads/s{share}, or"
        f" {plan.cached_per_s:.0f} where a cached tier survives, for {plan.before_s:.0f} s before and"
        f" {plan.fault_s:.0f} s during each fault.",
        _table(rows),
        f"![latencies during each fault](../images/{_FIGURES})",
        f"![latency and tiers before, during and after each fault](../images/{_SHEET})",
        _stopped(rows),
        f"**{len(found)} of {done} faults fail the criteria:**"
        if found
        else f"**All {done} faults meet the criteria.**",
        "\n".join(f"- `{name}`: {sentence}" for name, sentence in found.items()),
        f"From another version of the code: {', '.join(former)}." if former else "",
        f"Not run: {', '.join(missing)}." if missing else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _stopped(rows: Rows) -> str:
    """Name the states in which executions were stopped by hand."""
    done = [name for _, run in rows for name, count in run.counts.items() if count and name.startswith(_STOPPED)]
    states = ", ".join(f"`{name.removeprefix(_STOPPED)}`" for name in dict.fromkeys(done))
    return f"Executions were stopped in {states}, and in no other state." if states else ""


def _table(rows: Rows) -> str:
    """Return a row for each fault, with a value for each policy, and below it totals and ranges of all faults."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    whats = {fault.name: fault.what for fault, _ in rows}
    for fault, run in rows:
        found.setdefault(fault.name, {})[run.policy] = dict(zip(HEADER[1:], cells(fault, run), strict=True))

    def pair(name: str, column: str) -> str:
        return " / ".join(found[name].get(policy, {}).get(column, "-") for policy in POLICIES)

    def total(column: str) -> str:
        return " / ".join(
            f"{sum(int(each[policy][column]) for each in found.values() if policy in each):,}" for policy in POLICIES
        )

    def extremes(column: str) -> str:
        values = [each[column] for of_policies in found.values() for each in of_policies.values()]
        known = sorted((value for value in values if value != "-"), key=float)
        return f"{known[0]} to {known[-1]}" if known else "-"

    lines: list[Sequence[str]] = [("fault", "", *_COLUMNS), ["---"] * (2 + len(_COLUMNS))]
    lines += [(name, what, *(pair(name, each) for each in _COLUMNS)) for name, what in whats.items()]
    counts = [
        (column, [f"{name} {pair(name, column)}" for name in found if _is_counted(found[name], column)])
        for column in _COUNTS
    ]
    zero = ", ".join(f"`{column}`" for column, faults in counts if not faults)
    below = [f"{total('reads')} reads, {total('writes')} writes. p50: {extremes('p50 ms')} ms."]
    below += [f"At rest: {extremes('at rest s')} s."]
    below += [f"`{column}`: {', '.join(faults)}." for column, faults in counts if faults]
    below += [f"0 in each run: {zero}."] if zero else []
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Each pair is {' / '.join(POLICIES)}.\n\n{table}\n\n{' '.join(below)}"


def _is_counted(of_policies: dict[str, dict[str, str]], column: str) -> bool:
    return any(of_policy[column] != "0" for of_policy in of_policies.values())


def draw_all(results: Results, path: Path) -> None:
    """Draw the latencies during the faults: median, 99th percentile and longest, a row for each fault."""
    faults = [fault for fault in FAULTS if results.runs(fault)]
    with drawing():
        figure = new_figure(9, 1.2 + 0.24 * len(faults))
        head(figure, "Reads during faults", "median, 99 of 100 and longest of the reads of keys during each fault")
        bottom, top = 0.55 / figure.get_figheight(), 1 - 0.75 / figure.get_figheight()
        axes = figure.subplots(gridspec_kw={"left": 0.3, "right": 0.98, "top": top, "bottom": bottom})
        for number, policy in enumerate(POLICIES):
            of_policy = [
                (row, run) for row, fault in enumerate(faults) for run in results.runs(fault) if run.policy == policy
            ]
            found = [figures(faults[row], run) for row, run in of_policy]
            heights = [row + 0.3 * (number - 0.5) for row, _ in of_policy]
            times_ms = [[1e3 * each for each in (one.p50_s, one.p99_s, one.longest_s)] for one in found]
            colour = LINE_COLOURS[number]
            axes.hlines(
                heights, [each[0] for each in times_ms], [each[2] for each in times_ms], color=colour, alpha=0.4
            )
            axes.plot([each[0] for each in times_ms], heights, "|", color=colour)
            axes.plot([each[1] for each in times_ms], heights, "o", color=colour, markersize=4, label=policy)
        axes.axvline(MOST_P99_S * 1e3, color=INK, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(faults)), [fault.name for fault in faults], fontsize=8)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: plain(value))
        axes.set_xlabel("latency [ms]; dotted: the limit of the 99th percentile")
        axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(POLICIES))
        write_image(figure, path)


def main() -> int:
    """Write the page and its pictures; return the exit code."""
    parser = argparse.ArgumentParser(prog="chaos.evidence", description=__doc__.splitlines()[0])
    where = _PROJECT / "build/chaos"
    parser.add_argument("--results", type=Path, default=where, metavar="DIR", help="folder of the results")
    folder: Path = parser.parse_args().results
    try:
        results = Results.of_folder(folder)
    except FileNotFoundError:
        parser.error(f"{folder} has no results: run `make chaos` first")
    _PAGE.write_text(with_results(_PAGE.read_text(), results))
    draw_all(results, _IMAGES / _FIGURES)
    draw_sheet(results, _IMAGES / _SHEET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
