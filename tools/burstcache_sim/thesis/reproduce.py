"""The whole evaluation at once: samples, tables, pictures, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from burstcache_sim.output import made_folder, write_lines
from burstcache_sim.progress import progress
from burstcache_sim.report.table import csv_text
from burstcache_sim.thesis import burst_tables, tables
from burstcache_sim.thesis.bursts import clairvoyant
from burstcache_sim.thesis.log_hour import LOG_SOURCE, log_hours
from burstcache_sim.thesis.log_tables import log_table, published_table
from burstcache_sim.thesis.own_runs import own_runs
from burstcache_sim.thesis.own_tables import delays_table, runs_csv, side_by_side, slow_stop_table
from burstcache_sim.thesis.pictures import log_pictures, thesis_pictures
from burstcache_sim.thesis.published import EXPERIMENTS, Poisson, Workload
from burstcache_sim.thesis.samples import Samples, by_workload, sample

RUNS_SOURCE = "github.com/bunert/caching-system, code/evaluation"
_KNOWN_FUTURES = 10  # one trace in this many: the offline algorithm is slower than the engine


def reproduce(folder: Path, *, seeds: int, log: str | None = None, runs: str | None = None) -> Iterator[str]:
    """Reproduce the evaluation; the same arguments give the same files.

    Args:
        folder: Where `tables.md`, `bands.csv` and the pictures go; it is created.
        seeds: Random traces per workload, from seed 1 on.
        log: A log that stands in for the thesis's in figures 5.3 to 5.6; without one they are left out.
        runs: Folder of the thesis's own traces and runs; without one its runs are not replayed.

    Yields:
        What to print on the way: tables and the names of files.

    Raises:
        BadLogError: The log cannot be read.
        InvalidSettingError: The folder cannot be written, the log has no request to simulate, or a run cannot be read.
    """
    hours = log_hours(log) if log else []  # before the long work: a wrong name is reported at once
    own = own_runs(runs) if runs else []
    made_folder("--out", folder)
    fixed, random = _samples(seeds, is_n_fixed=True), _samples(seeds, is_n_fixed=False)
    futures = progress(by_workload(), text="the future known")
    known = {workload: clairvoyant(workload, range(1, max(1, seeds // _KNOWN_FUTURES) + 1)) for workload in futures}
    short = [
        tables.table_5_1(),
        tables.table_a1_costs(),
        tables.overview(fixed),
        tables.counts(fixed),
        burst_tables.table_5_2(fixed),
        burst_tables.spikes(fixed),
        burst_tables.claims(fixed),
        burst_tables.clairvoyants(known, fixed),
        tables.latencies(),
        *([side_by_side(own), slow_stop_table(own)] if own else []),
        delays_table(),
        *([published_table()] if hours else []),
        *(log_table(hour) for hour in hours),
    ]
    for table in short:
        yield f"{table.text()}\n"
    if not log:
        yield f"No log stands in for figures 5.3 to 5.6: give one; NASA's of August 1995 is at {LOG_SOURCE}\n"
    if own:
        write_lines("--out", str(folder / "runs.csv"), [runs_csv(own)])
    else:
        yield f"The thesis's own runs are not replayed: give their folder, from {RUNS_SOURCE}\n"
    in_full = [tables.bands(each, fixed[each.workload], random.get(each.workload)) for each in EXPERIMENTS]
    markdown = "\n\n".join(table.markdown() for table in [*short, *in_full])
    write_lines("--out", str(folder / "tables.md"), [markdown, "\n"])
    write_lines("--out", str(folder / "bands.csv"), [_bands_csv(fixed, random)])
    pictures = [*thesis_pictures(fixed, folder), *log_pictures(hours, folder)]
    yield f"{folder}: tables.md, bands.csv, {'runs.csv, ' if own else ''}{len(pictures)} pictures"


def _samples(seeds: int, *, is_n_fixed: bool) -> dict[Workload, Samples]:
    """Return the runs of all workloads; the number of requests of a spike is part of it and never random."""
    workloads = [workload for workload in by_workload() if is_n_fixed or isinstance(workload, Poisson)]
    found = {}
    for workload in workloads:
        shown = progress(range(1, seeds + 1), text=tables.workload_text(workload))
        found[workload] = sample(workload, shown, is_n_fixed=is_n_fixed)
    return found


def _bands_csv(fixed: Mapping[Workload, Samples], random: Mapping[Workload, Samples]) -> str:
    rows: list[tuple[object, ...]] = []
    for experiment in EXPERIMENTS:
        for reading, samples in ((tables.FIXED, fixed), (tables.RANDOM, random)):
            if experiment.workload in samples:
                rows += tables.csv_rows(experiment, samples[experiment.workload], reading)
    return csv_text(tables.CSV_HEADER, rows)
