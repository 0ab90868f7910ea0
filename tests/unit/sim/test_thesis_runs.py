"""The thesis's own runs: read from a folder, replayed, compared with what they did; and the delays that it measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay
from burstcache_sim.thesis.own_runs import OwnRun, own_runs, slow_stops
from burstcache_sim.thesis.own_tables import delays_table, runs_csv, side_by_side, slow_stop_table
from burstcache_sim.thesis.published import EXPERIMENTS, LOG_SENSITIVITIES, TABLE_A1
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.delays import THESIS_DELAYS, delayed
from burstcache_sim.world.scenario import Scenario
from burstcache_sim.world.timings import THESIS_TIMINGS

_NAMES = {"S": "S3", "L": "lambda", "R": "redis"}
_ARRIVALS_S = [10.0, 20.0, 21.5, 23.0, 24.0, 25.0, 26.0, 27.0, 60.0, 61.0, 62.0, 200.0, 900.0, 901.0, 902.0, 903.0]
_SPIKES = ("7-spike-simple-50-150", "12-spike-simple-100-250", "16-spike-simple-150-300", "38-spike-simple-300-600")
_RUNS = {
    **{f"simulations/system-60-1-ec2log-final-3.0-{s}": ("60-1-ec2log", 3, s, 3600) for s in (2, 3, 4)},
    **{
        f"simulations/system-30-poisson-{rate}-final-{s}": (f"30-poisson-{rate}", rate, s, 1800)
        for rate in (3, 4)
        for s in (2, 3, 4, 5)
    },
    **{f"spike_simulations/system-{trace}-final-9-4": (trace, 9, 4, None) for trace in _SPIKES},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evaluation's folder as the author laid it out, with runs that did what the simulator does."""
    top = tmp_path_factory.mktemp("evaluation")
    for part in ("traces", "simulation/simulations", "simulation/spike_simulations"):
        (top / part).mkdir(parents=True)
    arrivals_us = [round(at_s * 1_000_000) for at_s in _ARRIVALS_S]
    for name, (trace, rate, sensitivity, end_s) in _RUNS.items():
        rows = "".join(f"{i}\t{at_s}\tGET\tindex.html\n" for i, at_s in enumerate(_ARRIVALS_S))
        (top / "traces" / f"{trace}.txt").write_text(rows)
        until_us = None if end_s is None else end_s * 1_000_000
        scenario = Scenario(Trace.of_times(arrivals_us), until_us=until_us)
        tiers = replay(Thesis.configured(rate, sensitivity), scenario).tiers
        answers = [
            f"{i}\t{at_s}\tGET\tindex.html\t{_NAMES[tier]}\t{20 + i}.5\n"
            for i, (at_s, tier) in enumerate(zip(_ARRIVALS_S, tiers, strict=True))
        ]
        answers.reverse()  # answers are logged as they come
        (top / "simulation" / f"{name}.txt").write_text(f"1000\t{1000 + (end_s or 900)}\n{''.join(answers)}")
    return top


@pytest.fixture
def runs(folder: Path) -> list[OwnRun]:
    return own_runs(str(folder))


def test_runs_are_those_of_all_fifteen_figures_in_the_order_of_requests(runs: list[OwnRun]) -> None:
    assert [run.figure for run in runs] == [*LOG_SENSITIVITIES, *(each.figure for each in EXPERIMENTS)]
    assert set(TABLE_A1) == {run.figure for run in runs}
    assert all(run.latencies_ms == tuple(20.5 + i for i in range(len(_ARRIVALS_S))) for run in runs)
    assert [run.until_us for run in runs[-5:]] == [1_800_000_000, None, None, None, None]


def test_run_that_did_what_the_simulator_does_differs_nowhere(runs: list[OwnRun]) -> None:
    assert [run.differing(run.replay()) for run in runs] == [0] * 15


def test_run_with_another_tier_differs_there(runs: list[OwnRun]) -> None:
    changed = replace(runs[0], tiers="R" + runs[0].tiers[1:])

    assert changed.differing(changed.replay()) == 1


def test_slow_stop_keeps_a_key_on_its_cache_function(runs: list[OwnRun]) -> None:
    """The node is ordered to stop, the key gets hot again, and only after the stop may it be promoted."""
    burst_s = [float(at_s) for at_s in range(10, 41)]
    later_s = [float(at_s) for at_s in range(150, 341)]
    arrivals_us = tuple(round(at_s * 1_000_000) for at_s in (*burst_s, *later_s))
    run = replace(runs[-1], figure="5.10a", arrivals_us=arrivals_us)

    (_, quick), (_, slow) = slow_stops(run, boot_s=37, stops_s=(30, 140))

    assert quick.redis_starts == slow.redis_starts == 2
    assert slow.n_lambda > quick.n_lambda


def test_tables_show_the_run_before_the_replay(runs: list[OwnRun]) -> None:
    table = side_by_side(runs)

    assert [row[0] for row in table.rows] == [run.figure for run in runs]
    assert table.rows[0][1].startswith("56.00 / ")
    assert all(row[-1] == f"0 of {len(_ARRIVALS_S)}" for row in table.rows)
    assert [row[0] for row in slow_stop_table(runs).rows][:2] == ["stop 30 s", "stop 60 s"]
    assert runs_csv(runs).splitlines()[1].startswith("5.3,in memory [%],56,")


@pytest.mark.slow
def test_command_replays_the_runs_of_a_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "thesis"

    assert main(["research", "thesis", "--seeds", "1", "--runs", str(folder), "--out", str(out)]) == 0

    assert "the thesis's own traces, run and replay" in capsys.readouterr().out
    assert len((out / "runs.csv").read_text().splitlines()) == 1 + 15 * 8


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("traces/30-poisson-3.txt", None, r"30-poisson-3\.txt cannot be read"),
        ("traces/30-poisson-3.txt", "", "expected rows, but the file is empty"),
        ("traces/30-poisson-3.txt", "0\t17.0\n", r"30-poisson-3\.txt:1: expected 4 fields separated by tabs, not 2"),
        ("traces/30-poisson-3.txt", "99\t17.0\tGET\tindex.html\n", "expected an answer to request 99"),
        ("traces/30-poisson-3.txt", "0\tsoon\tGET\tindex.html\n", "'soon'"),
        ("simulation/simulations/system-30-poisson-3-final-2.txt", "1\t2\n0\t17.0\tGET\ta\tEC\t1\n", "expected"),
    ],
)
def test_file_that_cannot_be_read_is_named(
    folder: Path, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / name).unlink()
    if text is not None:
        (copy / name).write_text(text)

    with pytest.raises(InvalidSettingError, match=message):
        own_runs(str(copy))


def test_measured_delays_are_near_those_that_the_text_states() -> None:
    measured = THESIS_DELAYS.timings("1KB")

    assert (measured.warm_start_us, measured.cold_start_us, measured.redis_boot_us) == (16_000, 577_500, 34_795_000)
    assert measured.redis_stop_us == THESIS_TIMINGS.redis_stop_us
    assert all(row.least_ms <= row.median_ms <= row.most_ms for row in THESIS_DELAYS.rows)
    assert len(delays_table().rows) == len(THESIS_DELAYS.rows)


def test_delays_are_named_by_sheet_and_size() -> None:
    assert delayed("thesis-2022:1MB") == THESIS_DELAYS.timings("1MB")
    with pytest.raises(InvalidSettingError, match="delays 2022:1KB: expected thesis-2022 and a size"):
        delayed("2022:1KB")
    with pytest.raises(InvalidSettingError, match="object size 5KB: expected one of 100B, 1KB, 1MB, 100MB"):
        delayed("thesis-2022:5KB")


def test_run_takes_measured_delays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s\n" + "".join(f"{at_s}\n" for at_s in range(10, 70)))

    served = []
    for delays in ([], ["--delays", "thesis-2022:1MB"]):
        assert main(["sim", "run", str(trace), "--policy", "thesis", *delays]) == 0
        served.append(capsys.readouterr().out)

    assert served[0] != served[1]
