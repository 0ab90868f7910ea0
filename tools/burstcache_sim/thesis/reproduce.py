"""Functions that reproduce the whole evaluation as tables, pictures and files."""

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
_KNOWN_FUTURES = 10  # only every tenth trace, because the offline algorithm is slower than the engine


def reproduce(folder: Path, *, seeds: int, log: str | None = None, runs: str | None = None) -> Iterator[str]:
    """Reproduce the evaluation. The same arguments produce the same files.

    Args:
        folder: Folder for `tables.md`, `bands.csv` and the pictures, created if missing.
        seeds: Number of random traces per workload, with seeds from 1.
        log: A log that replaces the thesis's own log in figures 5.3 to 5.6, or None to skip these figures.
        runs: Folder of the thesis's own traces and runs, or None to skip their replay.

    Yields:
        Lines to print: tables and file names.

    Raises:
        BadLogError: The log cannot be read.
        InvalidSettingError: The folder cannot be written, the log has no request to simulate, or a run cannot be read.
    """
    hours = log_hours(log) if log else []  # first, to fail on a wrong name before the long simulations
    own = own_runs(runs) if runs else []
    made_folder("--out", folder)
    fixed, random = _samples(seeds, is_n_fixed=True), _samples(seeds, is_n_fixed=False)
    workloads = progress(by_workload(), text="known futures")
    futures = {workload: clairvoyant(workload, range(1, max(1, seeds // _KNOWN_FUTURES) + 1)) for workload in workloads}
    short = [
        tables.table_5_1(),
        tables.table_a1_costs(),
        tables.overview(fixed),
        tables.counts(fixed),
        burst_tables.table_5_2(fixed),
        burst_tables.spikes(fixed),
        burst_tables.claims(fixed),
        burst_tables.clairvoyants(futures, fixed),
        tables.latencies(),
        *([side_by_side(own), slow_stop_table(own)] if own else []),
        delays_table(),
        *([published_table()] if hours else []),
        *(log_table(hour) for hour in hours),
    ]
    for table in short:
        yield f"{table.text()}\n"
    if not log:
        yield f"Figures 5.3 to 5.6 need a log (--log), such as NASA's of August 1995: {LOG_SOURCE}\n"
    if own:
        write_lines("--out", str(folder / "runs.csv"), [runs_csv(own)])
    else:
        yield f"A replay of the thesis's own runs needs their folder (--runs), from {RUNS_SOURCE}\n"
    in_full = [tables.bands(each, fixed[each.workload], random.get(each.workload)) for each in EXPERIMENTS]
    markdown = "\n\n".join(table.markdown() for table in [*short, *in_full])
    write_lines("--out", str(folder / "tables.md"), [markdown, "\n"])
    write_lines("--out", str(folder / "bands.csv"), [_bands_csv(fixed, random)])
    pictures = [*thesis_pictures(fixed, folder), *log_pictures(hours, folder)]
    yield f"{folder}: tables.md, bands.csv, {'runs.csv, ' if own else ''}{len(pictures)} pictures"


def _samples(seeds: int, *, is_n_fixed: bool) -> dict[Workload, Samples]:
    """Sample all workloads. A spike's number of requests is fixed by definition."""
    workloads = [workload for workload in by_workload() if is_n_fixed or isinstance(workload, Poisson)]
    samples = {}
    for workload in workloads:
        shown = progress(range(1, seeds + 1), text=tables.workload_text(workload))
        samples[workload] = sample(workload, shown, is_n_fixed=is_n_fixed)
    return samples


def _bands_csv(fixed: Mapping[Workload, Samples], random: Mapping[Workload, Samples]) -> str:
    rows: list[tuple[object, ...]] = []
    for experiment in EXPERIMENTS:
        for reading, samples in ((tables.FIXED, fixed), (tables.RANDOM, random)):
            if experiment.workload in samples:
                rows += tables.csv_rows(experiment, samples[experiment.workload], reading)
    return csv_text(tables.CSV_HEADER, rows)
