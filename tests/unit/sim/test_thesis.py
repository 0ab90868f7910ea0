"""The thesis's evaluation reproduced: samples, bands, tables, the hour of a log, files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_sim.report.table import Table
from burstcache_sim.thesis import log_hour, pictures
from burstcache_sim.thesis.bands import band, percentile
from burstcache_sim.thesis.burst_tables import clairvoyants, table_5_2
from burstcache_sim.thesis.bursts import clairvoyant, perfect_usd, published_costs
from burstcache_sim.thesis.log_hour import log_hours
from burstcache_sim.thesis.log_tables import log_table, published_table
from burstcache_sim.thesis.published import EXPERIMENTS, TABLE_A1, Poisson, Spike, Workload
from burstcache_sim.thesis.reproduce import reproduce
from burstcache_sim.thesis.samples import QUANTITIES, Samples, arrivals_us, by_workload, horizon_us, most_alike, sample
from burstcache_sim.thesis.tables import bands, latencies, overview, table_5_1, table_a1_costs
from support.project import ROOT
from support.runs import run

DOCUMENT = ROOT / "docs" / "evidence" / "thesis.md"
MIDDAY_S = 3 * 3600


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object asked for 40 times in the first hour and 170 times in the fourth, another one less often."""
    rows = [(90.0 * i, "/often") for i in range(40)] + [(MIDDAY_S + 20.0 * i, "/often") for i in range(170)]
    rows += [(10.0 + 300 * i, "/seldom") for i in range(60)]
    path = tmp_path_factory.mktemp("paper") / "log.csv"
    path.write_text("t,key,size\n" + "".join(f"{1e9 + t:.6f},{key},100\n" for t, key in sorted(rows)))
    return path


def test_percentile_counts_equal_values_by_half() -> None:
    assert percentile([1, 2, 2, 3], 2) == 50
    assert percentile([1, 2, 3, 4], 3.5) == 75
    assert percentile([5.0] * 4, 6) == 100


def test_band_has_mean_quantiles_and_the_error_of_its_mean() -> None:
    found = band(np.arange(101.0))

    assert (found.mean, found.p5, found.p50, found.p95) == (50, 5, 50, 95)
    assert found.standard_error == pytest.approx(np.arange(101).std() / 101**0.5)
    assert found.text(1) == "50.0 (5.0 - 95.0)"


def test_published_shares_are_those_that_the_thesis_prints() -> None:
    printed = {"5.4": 85.71, "5.5": 93.71, "5.7b": 46.34, "5.9b": 49.15, "5.10b": 95.76, "5.14": 95.17}

    assert {figure: round(TABLE_A1[figure].in_memory_pct, 2) for figure in printed} == printed


def test_traces_of_a_known_number_have_it_and_others_scatter_around_the_rate() -> None:
    workload = Poisson(3)

    fixed = [arrivals_us(workload, seed, 82) for seed in range(50)]
    random = [len(arrivals_us(workload, seed, None)) for seed in range(50)]

    assert {len(trace_us) for trace_us in fixed} == {82}
    assert all(trace_us == sorted(trace_us) and 0 <= trace_us[0] < trace_us[-1] <= 1_800_000_000 for trace_us in fixed)
    assert len(set(random)) > 10
    assert np.mean(random) == pytest.approx(90, abs=5)


@pytest.mark.parametrize("workload", by_workload(), ids=str)
def test_samples_are_what_the_readable_simulator_gives(workload: Poisson | Spike) -> None:
    from burstcache_sim.thesis.samples import policy_of

    found = sample(workload, [7])

    for experiment in by_workload()[workload]:
        trace_us = arrivals_us(workload, 7, experiment.published.n)
        result = run(trace_us, policy_of(experiment), until_us=horizon_us(workload))
        expected = [quantity.of_run(result) for quantity in QUANTITIES]
        assert found.by_figure[experiment.figure].tolist() == [expected]
        assert found.spans_us.tolist() == [trace_us[-1] - trace_us[0]]


def test_most_alike_is_the_run_with_the_published_counts() -> None:
    row = TABLE_A1["5.12"]
    published = [quantity.of_row(row) for quantity in QUANTITIES]
    values = np.array([[10 * value + 1 for value in published], published, [0.0] * len(published)])

    assert most_alike(values, row) == 1


def test_every_row_of_table_5_1_is_as_printed() -> None:
    assert {row[-1] for row in table_5_1().rows} == {"yes"}


def test_priced_counts_of_table_a1_differ_from_the_print_by_its_rounding() -> None:
    for figure, printed, priced in table_a1_costs().rows:
        assert float(priced) == pytest.approx(float(printed), abs=5.1e-5), figure


def test_band_table_says_what_lies_outside() -> None:
    samples = sample(Poisson(4), range(1, 201))
    experiment = next(each for each in EXPERIMENTS if each.figure == "5.10a")
    others = {workload: sample(workload, range(1, 21)) for workload in by_workload() if workload != Poisson(4)}

    table = bands(experiment, samples, None)
    row = next(row for row in overview({Poisson(4): samples, **others}).rows if row[0] == "5.10a")

    assert [cells[1] for cells in table.rows] == ["74.58", "817.1", "17.0", "1.00", "681", "4.00", "35.0", "0.01620"]
    assert float(table.rows[1][3]) > 99
    assert {"Lambda [s]", "total [USD]"} <= set(row[-1].split(", "))


def test_perfect_automation_is_billed_at_least_a_minute() -> None:
    per_s = 0.0134 / 3600

    assert perfect_usd(np.array([5.0, 100.2])).tolist() == pytest.approx([60 * per_s, 101 * per_s])


def test_published_spikes_compare_as_section_5_5_says() -> None:
    short, long = published_costs(TABLE_A1["5.11"], 275), published_costs(TABLE_A1["5.14"], 2126)

    assert short.to_perfect[0] == pytest.approx(1.9, abs=0.05)  # "almost twice as expensive"
    assert long.to_perfect[0] < 1  # "we are even cheaper"
    assert short.lambda_share_pct[0] == pytest.approx(53, abs=0.5)
    assert long.running_pct[0] == pytest.approx(60, abs=0.5)  # 1270 s of 2126 s


def test_burst_tables_have_the_published_numbers_next_to_ours() -> None:
    seeds = range(1, 31)
    fixed = {workload: sample(workload, seeds) for workload in by_workload()}

    rows = table_5_2(fixed).rows
    known = clairvoyants({Poisson(4): clairvoyant(Poisson(4), seeds)}, fixed).rows[0]

    assert [(row[2], row[5]) for row in rows] == [(row[3], row[6]) for row in rows]
    assert float(known[3].split()[0]) < float(known[2].split()[0]) == pytest.approx(0.0071, abs=0.0003)


def test_log_hours_are_the_first_and_the_one_most_like_the_thesiss(log: Path) -> None:
    first, like = log_hours(str(log))

    assert (first.number, first.key, len(first.arrivals_us), first.arrivals_us[0]) == (1, "/often", 40, 0)
    assert (like.number, len(like.arrivals_us), like.arrivals_us[:2]) == (4, 170, (0, 20_000_000))
    assert first.rate_per_min == like.rate_per_min == 1


def test_log_table_compares_with_s3_and_nodes(log: Path) -> None:
    like = log_hours(str(log))[1]

    rows = {row[0]: row[1:] for row in log_table(like).rows}

    assert rows["S3 only"][5:7] == ("170", f"{170 * 4.3e-7:.5f}")
    assert float(rows["Redis node always on"][6]) < float(rows["ElastiCache, a node hour"][6])
    assert float(rows["as figure 5.5, sensitivity 4"][0]) > 90
    assert float(rows["exact optimum, no miss"][6]) <= float(rows["offline endpoint scheduler"][6])


def test_log_without_requests_for_one_hour_is_still_an_hour(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("arrival_s\n5.000000\n6.000000\n")

    (only,) = log_hours(str(path))

    assert (only.number, only.arrivals_us, only.rate_per_min) == (1, (0, 1_000_000), 120)
    assert log_table(only).rows


@pytest.mark.slow
def test_reproduction_gives_the_same_files_again(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "EXPERIMENTS", EXPERIMENTS[:1])
    monkeypatch.setattr(log_hour, "LOG_SENSITIVITIES", {"5.5": 4})

    for folder in ("a", "b"):
        told = list(reproduce(tmp_path / folder, seeds=3, log=str(log)))

    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"tables.md", "bands.csv", "figure-5.7a.png", "figure-5.5-hour-4.png"} <= set(names)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert any("hour 4 of the log" in text for text in told)


def test_without_a_log_one_line_says_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "EXPERIMENTS", ())

    told = "\n".join(reproduce(tmp_path, seeds=1))

    assert "https://ita.ee.lbl.gov/html/contrib/NASA-HTTP.html" in told
    assert "hour 1" not in told


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InvalidSettingError, match="file: expected a folder that can be written"):
        list(reproduce(tmp_path / "file", seeds=1))


def test_command_names_what_it_does_not_accept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "thesis", "--seeds", "0"]) == 2
    assert "--seeds '0': expected a whole number of at least 1" in capsys.readouterr().err
    assert main(["research", "thesis", "--out", str(tmp_path), "--log", str(tmp_path / "none.log")]) == 2
    assert "none.log" in capsys.readouterr().err


def test_table_is_markdown_too() -> None:
    table = Table("Title", ("a", "b"), (("x", "1"),), "Note.")

    assert table.markdown() == "## Title\n\nNote.\n\n| a | b |\n| --- | ---: |\n| x | 1 |"
    assert table.text() == "Title\nNote.\na  b\nx  1"


def test_the_documents_tables_hold_what_the_code_gives() -> None:
    document = DOCUMENT.read_text()

    for row in (*latencies().rows, *published_table().rows):
        assert f"| {' | '.join(row)} |" in document


@pytest.fixture(scope="module")
def smaller_run() -> dict[Workload, Samples]:
    return {workload: sample(workload, range(20_001, 20_401)) for workload in by_workload()}


def documented() -> dict[str, list[str]]:
    """Return the cells of the document's table of shares and costs, by figure."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in DOCUMENT.read_text().splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 6 and row[0] in TABLE_A1 and "(" in row[2]}


@pytest.mark.slow
def test_the_documents_bands_differ_from_a_smaller_run_by_chance_only(smaller_run: dict[Workload, Samples]) -> None:
    rows = documented()

    assert list(rows) == [experiment.figure for experiment in EXPERIMENTS]
    for experiment in EXPERIMENTS:
        row, values = rows[experiment.figure], smaller_run[experiment.workload].by_figure[experiment.figure]
        for published, found, column in ((row[0], row[1], 0), (row[2], row[3], -1)):
            decimals = QUANTITIES[column].decimals
            smaller = band(values[:, column])
            assert published == f"{QUANTITIES[column].of_row(experiment.published):.{decimals}f}"
            assert float(found.split()[0]) == pytest.approx(smaller.mean, abs=5 * smaller.standard_error)


@pytest.mark.slow
def test_the_documents_counts_outside_their_bands_differ_from_a_smaller_run_by_chance_only(
    smaller_run: dict[Workload, Samples],
) -> None:
    quantities = {quantity.text: number for number, quantity in enumerate(QUANTITIES[1:-1], 1)}
    row = re.compile(r"^\| ([\w.]+) \| ([^|]+) \| ([\d.]+) \| ([\d.]+) \(.*\) \|$", re.MULTILINE)
    cells = row.findall(DOCUMENT.read_text())
    rows = {(figure, name): (published, mean) for figure, name, published, mean in cells if name in quantities}

    named = [(figure, name) for figure, found in documented().items() for name in found[-1].split(", ")]
    assert list(rows) == [(figure, name) for figure, name in named if name in quantities]
    for experiment in EXPERIMENTS:
        values = smaller_run[experiment.workload].by_figure[experiment.figure].T
        for name, number in quantities.items():
            if (experiment.figure, name) in rows:
                published, mean = rows[experiment.figure, name]
                smaller = band(values[number])
                assert published == f"{QUANTITIES[number].of_row(experiment.published):.4g}"
                assert float(mean) == pytest.approx(smaller.mean, abs=5 * smaller.standard_error + 0.06)


def test_the_documents_pictures_exist() -> None:
    pictures_ = re.findall(r"\(../images/([\w.-]+)\)", DOCUMENT.read_text())

    assert sorted(pictures_) == sorted(path.name for path in (ROOT / "docs" / "images").glob("figure-*"))
