"""Tables for the thesis's own runs: runs next to replays, the slow stop in figure 5.10a, and the measured delays."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache_sim.report.table import Table, csv_text
from burstcache_sim.thesis.own_runs import OwnRun, slow_stops
from burstcache_sim.thesis.published import TABLE_A1
from burstcache_sim.thesis.samples import QUANTITIES
from burstcache_sim.world.delays import THESIS_DELAYS
from burstcache_sim.world.result import RunResult

SLOW_FIGURE, SLOW_BOOT_S = "5.10a", 37  # boot from 151 s (in the replay) to 188 s (in the run)
_STOPS_S = (30, 60, 90, 110, 135, 140, 150, 155)
_HEADER = ("figure", *(quantity.text for quantity in QUANTITIES), "tiers that differ")
_DECIMALS = (2, 0, 0, 0, 0, 0, 0, 5)  # counts of a single run are integers
_CSV_HEADER = ("figure", "quantity", "run", "simulator")


def side_by_side(runs: Sequence[OwnRun]) -> Table:
    """Return each run's quantities next to those of its replay."""
    rows = [_row(run.figure, run, run.replay()) for run in runs]
    note = "run / simulator; a tier differs if another one answered the request"
    return Table("Figures 5.3 to 5.14: the thesis's own traces, run and replay", _HEADER, tuple(rows), note)


def slow_stop_table(runs: Sequence[OwnRun]) -> Table:
    """Return replays of figure 5.10a with instances that stop slowly."""
    run = next(run for run in runs if run.figure == SLOW_FIGURE)
    replays = slow_stops(run, boot_s=SLOW_BOOT_S, stops_s=_STOPS_S)
    rows = [_row(f"stop {stop_s} s", run, result) for stop_s, result in replays]
    note = f"run / simulator; a boot takes {SLOW_BOOT_S} s"
    return Table(f"Figure {SLOW_FIGURE} by the time that an instance takes to stop", _HEADER, tuple(rows), note)


def delays_table() -> Table:
    """Return the measured delays (figures 5.1, 5.2 and 5.15)."""
    rows = []
    for row in THESIS_DELAYS.rows:
        spread_ms = (row.median_ms, row.least_ms, row.most_ms)
        rows.append((row.name, row.object_size, *(f"{ms:,.1f}" for ms in spread_ms), str(row.samples)))
    header = ("delay", "object", "median [ms]", "least [ms]", "most [ms]", "samples")
    return Table(f"Delays measured by the thesis, {THESIS_DELAYS.measured}", header, tuple(rows), words=2)


def runs_csv(runs: Sequence[OwnRun]) -> str:
    """Format runs and replays as CSV, one row per figure and quantity."""
    rows: list[tuple[object, ...]] = []
    for run in runs:
        result = run.replay()
        pairs = [(q.text, q.of_row(TABLE_A1[run.figure]), q.of_run(result)) for q in QUANTITIES]
        rows += [(run.figure, text, f"{published:.8g}", f"{replayed:.8g}") for text, published, replayed in pairs]
    return csv_text(_CSV_HEADER, rows)


def _row(name: str, run: OwnRun, result: RunResult) -> tuple[str, ...]:
    row = TABLE_A1[run.figure]
    pairs = [(quantity.of_row(row), quantity.of_run(result)) for quantity in QUANTITIES]
    cells = [
        f"{published:.{places}f} / {replayed:.{places}f}"
        for (published, replayed), places in zip(pairs, _DECIMALS, strict=True)
    ]
    return (name, *cells, f"{run.differing(result)} of {len(run.tiers)}")
