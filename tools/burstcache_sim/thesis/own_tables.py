"""The thesis's own runs as tables: simulator next to run, the slow stop of figure 5.10a, and the measured delays."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache_sim.report.table import Table, csv_text
from burstcache_sim.thesis.own_runs import OwnRun, slow_stops
from burstcache_sim.thesis.published import TABLE_A1
from burstcache_sim.thesis.samples import QUANTITIES
from burstcache_sim.world.delays import THESIS_DELAYS
from burstcache_sim.world.result import RunResult

SLOW_FIGURE, SLOW_BOOT_S = "5.10a", 37  # its node was first up 188 s after the start, ordered at 151 s by the replay
_STOPS_S = (30, 60, 90, 110, 135, 140, 150, 155)
_HEADER = ("figure", *(quantity.text for quantity in QUANTITIES), "tiers that differ")
_DECIMALS = (2, 0, 0, 0, 0, 0, 0, 5)  # single runs have whole counts where means have fractions
_CSV_HEADER = ("figure", "quantity", "run", "simulator")


def side_by_side(runs: Sequence[OwnRun]) -> Table:
    """Return what each run took and what its replay takes, run first."""
    rows = [_row(run.figure, run, run.replay()) for run in runs]
    note = "run / simulator; a tier differs if another one answered the request"
    return Table("Figures 5.3 to 5.14: the thesis's own traces, run and replay", _HEADER, tuple(rows), note)


def slow_stop_table(runs: Sequence[OwnRun]) -> Table:
    """Return figure 5.10a replayed with instances that stop slowly."""
    run = next(run for run in runs if run.figure == SLOW_FIGURE)
    found = slow_stops(run, boot_s=SLOW_BOOT_S, stops_s=_STOPS_S)
    rows = [_row(f"stop {stop_s} s", run, result) for stop_s, result in found]
    note = f"run / simulator; a boot takes {SLOW_BOOT_S} s"
    return Table(f"Figure {SLOW_FIGURE} by how long an instance takes to stop", _HEADER, tuple(rows), note)


def delays_table() -> Table:
    """Return the measured delays (figures 5.1, 5.2 and 5.15)."""
    rows = []
    for row in THESIS_DELAYS.rows:
        spread_ms = (row.median_ms, row.least_ms, row.most_ms)
        rows.append((row.what, row.object_size, *(f"{ms:,.1f}" for ms in spread_ms), str(row.samples)))
    header = ("delay", "object", "median [ms]", "least [ms]", "most [ms]", "samples")
    return Table(f"Delays measured by the thesis, {THESIS_DELAYS.measured}", header, tuple(rows), words=2)


def runs_csv(runs: Sequence[OwnRun]) -> str:
    """Return run and replay for a program, a row per figure and quantity."""
    rows: list[tuple[object, ...]] = []
    for run in runs:
        result = run.replay()
        pairs = [(q.text, q.of_row(TABLE_A1[run.figure]), q.of_run(result)) for q in QUANTITIES]
        rows += [(run.figure, text, f"{theirs:.8g}", f"{ours:.8g}") for text, theirs, ours in pairs]
    return csv_text(_CSV_HEADER, rows)


def _row(name: str, run: OwnRun, result: RunResult) -> tuple[str, ...]:
    published = TABLE_A1[run.figure]
    pairs = [(quantity.of_row(published), quantity.of_run(result)) for quantity in QUANTITIES]
    cells = [
        f"{theirs:.{places}f} / {ours:.{places}f}" for (theirs, ours), places in zip(pairs, _DECIMALS, strict=True)
    ]
    return (name, *cells, f"{run.differing(result)} of {len(run.tiers)}")
