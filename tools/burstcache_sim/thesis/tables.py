"""Tables 5.1 and A.1 and the mean latencies, next to the simulator's results."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from burstcache.core.parameters import US_PER_S, configure
from burstcache_sim.latency import THESIS_AT_THE_CLIENT, summarise
from burstcache_sim.report.table import Table
from burstcache_sim.thesis.bands import band, percentile
from burstcache_sim.thesis.bursts import row_bill
from burstcache_sim.thesis.published import (
    EXPERIMENTS,
    MEAN_LATENCY_MS,
    TABLE_5_1,
    TABLE_A1,
    Experiment,
    Poisson,
    Workload,
)
from burstcache_sim.thesis.samples import QUANTITIES, Samples

BAND_NOTE = "mean (5 - 95 %); percentile: share of the traces below the published value, plus half of the equal ones"
CSV_HEADER = ("figure", "requests", "quantity", "published", "mean", "p5", "p50", "p95", "percentile", "traces")
FIXED, RANDOM = "n as published", "n random"


def table_5_1() -> Table:
    """Return table 5.1, with the configurator's parameters next to the printed parameters."""
    rows = []
    for (rate, sensitivity), printed_s in TABLE_5_1.items():
        p = configure(Fraction(rate), Fraction(sensitivity))
        ours_s = tuple(us // US_PER_S for us in (p.tick_us, p.lambda_threshold_us, p.redis_utilization_us))
        rows.append((str(rate), str(sensitivity), *map(str, ours_s), "yes" if ours_s == printed_s else str(printed_s)))
    header = ("rate [1/min]", "sensitivity", "TICK [s]", "lambdaThreshold [s]", "redisUtilization [s]", "as printed")
    return Table("Table 5.1: parameters", header, tuple(rows), words=0)


def table_a1_costs() -> Table:
    """Return table A.1's totals next to the prices of the table's counts."""
    rows = tuple((name, f"{row.total_usd:g}", f"{row_bill(row).usd:.6f}") for name, row in TABLE_A1.items())
    return Table("Table A.1: total cost from the printed counts", ("figure", "printed [USD]", "priced [USD]"), rows)


def bands(experiment: Experiment, fixed: Samples, random: Samples | None) -> Table:
    """Return one figure's row of table A.1 next to the bands over random traces."""
    rows = []
    for i, quantity in enumerate(QUANTITIES):
        published = quantity.of_row(experiment.published)
        row = [quantity.text, f"{published:.{quantity.decimals}f}"]
        for samples in filter(None, (fixed, random)):
            values = samples.by_figure[experiment.figure][:, i]
            row += [band(values).text(quantity.decimals), f"{percentile(values, published):.1f}"]
        rows.append(tuple(row))
    header = ["", "published", FIXED, "percentile", *([RANDOM, "percentile"] if random else [])]
    setting = f"rate {experiment.rate_per_min}, sensitivity {experiment.sensitivity}"
    workload = f"{workload_text(experiment.workload)}, {experiment.published.n} requests"
    title = f"Figure {experiment.figure}: {workload}, {setting}"
    return Table(title, tuple(header), tuple(rows))


def overview(fixed: Mapping[Workload, Samples]) -> Table:
    """Return each figure's cost and share of requests served from memory, and the quantities outside their bands."""
    rows = []
    for experiment in EXPERIMENTS:
        columns = fixed[experiment.workload].by_figure[experiment.figure].T
        row, outside = [experiment.figure], []
        for quantity, values in zip(QUANTITIES, columns, strict=True):
            published = quantity.of_row(experiment.published)
            if quantity in (QUANTITIES[0], QUANTITIES[-1]):
                row += [f"{published:.{quantity.decimals}f}", band(values).text(quantity.decimals)]
            if not 5 <= percentile(values, published) <= 95:
                outside.append(quantity.text)
        rows.append((*row, ", ".join(outside) or "none"))
    header = ("figure", "published [%]", "in memory [%]", "published [USD]", "total [USD]", "outside 5 - 95 %")
    return Table(f"Figures 5.7 to 5.14, {FIXED}", header, tuple(rows), BAND_NOTE.partition(";")[0])


def counts(fixed: Mapping[Workload, Samples]) -> Table:
    """Return table A.1's counts next to their bands, one row per figure."""
    rows = []
    for experiment in EXPERIMENTS:
        columns = fixed[experiment.workload].by_figure[experiment.figure].T
        cells = [
            f"{quantity.of_row(experiment.published):.4g}: {band(values).text(quantity.decimals)}"
            for quantity, values in zip(QUANTITIES[1:-1], columns[1:-1], strict=True)
        ]
        rows.append((experiment.figure, *cells))
    header = ("figure", *(quantity.text for quantity in QUANTITIES[1:-1]))
    note = f"published: {BAND_NOTE.partition(';')[0]}"
    return Table(f"Table A.1: counts of figures 5.7 to 5.14, {FIXED}", header, tuple(rows), note)


def csv_rows(experiment: Experiment, samples: Samples, reading: str) -> list[tuple[object, ...]]:
    """Return one figure's bands as CSV rows."""
    rows: list[tuple[object, ...]] = []
    for i, quantity in enumerate(QUANTITIES):
        values = samples.by_figure[experiment.figure][:, i]
        published, spread = quantity.of_row(experiment.published), band(values)
        numbers = (published, spread.mean, spread.p5, spread.p50, spread.p95, percentile(values, published))
        name = (experiment.figure, reading, quantity.text)
        rows.append((*name, *(f"{number:.8g}" for number in numbers), len(values)))
    return rows


def latencies() -> Table:
    """Return the figures' mean latencies next to latencies computed from the S3 shares (thesis, section 5.2)."""
    rows = []
    for figure, mean_ms in MEAN_LATENCY_MS.items():
        row = TABLE_A1[figure]
        n_s3 = row.s3_requests - row.cold_starts - row.redis_starts
        computed_ms = summarise(n_s3, 0, row.n - n_s3, THESIS_AT_THE_CLIENT).mean_ms
        rows.append((figure, f"{row.in_memory_pct:.2f}", f"{mean_ms:.2f}", f"{computed_ms:.2f}"))
    header = ("figure", "in memory [%]", "mean, published [ms]", "by the thesis, section 5.2 [ms]")
    return Table("Mean latency end to end", header, tuple(rows))


def workload_text(workload: Workload) -> str:
    """Return a workload's name."""
    if isinstance(workload, Poisson):
        return f"Poisson {workload.rate_per_min}/min"
    return f"spike of deviation {workload.std_s} s"
