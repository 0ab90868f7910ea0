"""The search: what it finds, what it can be trusted with, and what `burstcache sim tune` prints."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from burstcache.cli import main
from burstcache.core.parameters import Parameters, parameters_from_text
from burstcache.core.prices import price_sheet
from burstcache.sim.costs.comparison import own_bill
from burstcache.sim.costs.spending import weighed
from burstcache.sim.costs.usage import Setup
from burstcache.sim.run import run
from burstcache.sim.trace import Trace
from burstcache.sim.tune import search as tune_module
from burstcache.sim.tune.candidates import BreakevenSpace, ThesisSpace, overrides_text, seconds_text
from burstcache.sim.tune.search import CheapestAt, MostHitsFor, Tried, Workload, pareto_front, tune, workload_of

PRICES = price_sheet("today-us-east-1")


def bursts(count: int = 6, requests: int = 40) -> Trace:
    """Bursts of about a request every five seconds, half an hour apart."""
    gaps_us = np.random.default_rng(1).exponential(5_000_000, (count, requests)).astype(np.int64)
    starts_us = np.arange(count)[:, None] * 1_800_000_000
    return Trace((starts_us + gaps_us.cumsum(axis=1)).ravel())


def workload(trace: Trace | None = None, **options: object) -> Workload:
    return workload_of(bursts() if trace is None else trace, PRICES, Setup(), **options)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "bursts.csv"
    path.write_text("arrival_s\n" + "".join(f"{at_us / 1e6:.6f}\n" for at_us in bursts().arrivals_us))
    return str(path)


# The search


def test_what_is_found_meets_the_share_and_costs_no_more_than_what_the_template_has() -> None:
    load = workload()
    usual = load.replay([parameters_from_text(rate="9", sensitivity="4")])[0]

    best = tune(load, CheapestAt(usual.in_memory_pct), ThesisSpace(), candidates=300).best

    assert best is not None
    assert best.in_memory_pct >= usual.in_memory_pct
    assert best.usd_per_month <= load.usd_per_month(usual)


def test_a_bill_is_kept_and_more_money_never_buys_fewer_hits() -> None:
    load = workload()

    found = [tune(load, MostHitsFor(usd), ThesisSpace(), candidates=300).best for usd in (32.5, 33.5, 60)]

    assert all(best and best.usd_per_month <= usd for best, usd in zip(found, (32.5, 33.5, 60), strict=True))
    shares = [best.in_memory_pct for best in found if best]
    assert shares == sorted(shares)
    assert shares[-1] > 90


def test_what_was_tried_is_what_the_readable_simulator_and_the_bill_say() -> None:
    load = workload()
    knob = BreakevenSpace(weighed(PRICES))

    for best in (tune(load, CheapestAt(50), space, candidates=60).best for space in (ThesisSpace(), knob)):
        assert best is not None
        readable = run(load.trace.arrivals_us, best.parameters)
        usd = own_bill(readable, load.demand, PRICES, load.setup).usd_exact * load.repeats_per_month

        assert best.result.n_redis == readable.n_redis
        assert best.usd_per_month == pytest.approx(float(usd))


def test_the_same_search_finds_the_same() -> None:
    first, second = (tune(workload(), CheapestAt(80), ThesisSpace(), candidates=100) for _ in range(2))

    assert first == second


def test_an_objective_out_of_reach_has_no_best_but_what_comes_closest() -> None:
    tuned = tune(workload(), MostHitsFor(5), ThesisSpace(), candidates=60)

    assert tuned.best is None
    assert tuned.closest.usd_per_month == min(tried.usd_per_month for tried in tuned.front)


def test_nothing_of_a_front_is_beaten() -> None:
    front = tune(workload(), CheapestAt(50), ThesisSpace(), candidates=200).front

    costs, shares = ([getattr(tried, name) for tried in front] for name in ("usd_per_month", "in_memory_pct"))
    assert len(front) > 5
    assert costs == sorted(set(costs))
    assert shares == sorted(set(shares))
    assert pareto_front(list(reversed(front))) == front


def test_many_objects_share_the_node_and_only_the_cache_costs_less() -> None:
    one = bursts()
    many = Trace(one.arrivals_us, np.arange(len(one), dtype=np.int32) % 3, None, ("a", "b", "c"))

    shared = tune(workload(many), CheapestAt(50), ThesisSpace(), candidates=60).best
    cache = tune(workload(many, only_cache=True), CheapestAt(50), ThesisSpace(), candidates=60).best

    assert shared is not None
    assert cache is not None
    assert shared.usd_per_month > 30 > cache.usd_per_month


def test_a_long_log_is_searched_by_its_first_part_and_judged_by_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_module, "_REQUESTS_ONE_KEY", 4_000)
    load = workload(bursts(count=20))

    tuned = tune(load, CheapestAt(50), ThesisSpace())

    assert tuned.candidates_on_part > 300
    assert tuned.candidates < 40
    assert tuned.best is not None
    assert tuned.best.result.n == len(load.trace)


def test_the_first_part_of_a_log_has_its_share_of_the_time_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_module, "_REQUESTS_ONE_KEY", 400 * 100)
    trace = Trace(np.arange(1_000) * 1_000_000)
    load = workload(trace, period_us=10 * 999_000_000)

    part = tune_module._first_part(load)

    assert (part.demand.requests, part.demand.period_us) == (100, 10 * 99_000_000)


def test_the_period_is_the_logs_and_not_the_runs() -> None:
    load = workload(period_us=24 * 3_600_000_000)

    assert load.repeats_per_month == Fraction(730, 24)


# The candidates


def test_overrides_are_read_as_they_were_meant() -> None:
    space, random = ThesisSpace(), Random(7)
    points = space.start(400, random)
    points += [space.near(point, 1.0, random) for point in points]

    for point in points:
        parameters = space.parameters(point)
        assert parameters_from_text(rate="9", sensitivity="4", overrides=overrides_text(parameters)) == parameters


def test_what_the_template_has_needs_no_override() -> None:
    assert overrides_text(parameters_from_text(rate="9", sensitivity="4")) == ""


@pytest.mark.parametrize(("time_us", "text"), [(500_000, "0.5"), (12_000_000, "12"), (100_000_000, "100")])
def test_a_time_is_written_without_needless_zeros(time_us: int, text: str) -> None:
    assert seconds_text(time_us) == text


def test_the_knob_stays_within_its_bounds() -> None:
    space, random = BreakevenSpace(weighed(PRICES)), Random(3)
    points = space.start(50, random)
    points += [space.near(point, 5.0, random) for point in points for _ in range(3)]

    assert all(1e-9 <= value <= 1 for (value,) in points)
    assert {space.parameters(point).uses_lambda for point in points} == {True, False}  # type: ignore[union-attr]


# The command


def test_the_command_prints_overrides_that_do_what_it_says(capsys: pytest.CaptureFixture[str], log: str) -> None:
    options = ["--in-memory-pct", "80", "--candidates", "150", "--json"]
    assert main(["sim", "tune", log, *options]) == 0
    best = json.loads(capsys.readouterr().out)["best"]

    assert main(["sim", "run", log, "--overrides", best["text"], "--json", "--prices", "thesis-2022"]) == 0
    again = json.loads(capsys.readouterr().out)

    assert best["in_memory_pct"] == again["in_memory_pct"] >= 80
    assert Parameters(**best["parameters"])


def test_the_table_has_the_front_and_the_csv_all_of_it(
    capsys: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    out = tmp_path / "front.csv"

    assert main(["sim", "tune", log, "--usd-per-month", "40", "--candidates", "150", "--csv", str(out)]) == 0

    lines = capsys.readouterr().out.splitlines()
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert any(line.startswith("  PolicyOverrides: ") for line in lines)
    assert f"Pareto front ({len(rows)} candidates that nothing beats in cost and hits):" in lines
    assert float(rows[0]["usd_per_month"]) < float(rows[-1]["usd_per_month"])


def test_the_break_even_policy_is_said_not_to_be_live(capsys: pytest.CaptureFixture[str], log: str) -> None:
    options = ["--policy", "breakeven", "--in-memory-pct", "80", "--candidates", "50"]

    assert main(["sim", "tune", log, *options]) == 0

    said = capsys.readouterr().out
    assert "  --hit-value-usd: " in said
    assert "not in the live system yet" in said


def test_an_objective_out_of_reach_is_one_line_with_what_is_possible(
    capsys: pytest.CaptureFixture[str], log: str
) -> None:
    assert main(["sim", "tune", log, "--usd-per-month", "3", "--candidates", "50"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "3 USD a month cannot be met: the cheapest that was found is " in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--in-memory-pct", "101"], "--in-memory-pct '101': expected a number from 0 to 100"),
        (["--usd-per-month", "nan"], "--usd-per-month 'nan': expected an amount of at least 0"),
        (["--usd-per-month", "9", "--candidates", "0"], "--candidates 0: expected at least 1"),
        (["--usd-per-month", "9", "--csv", "/nowhere/front.csv"], "--csv /nowhere/front.csv: expected a file that can"),
        ([], "one of the arguments --in-memory-pct --usd-per-month is required"),
    ],
)
def test_a_wrong_call_ends_with_two_and_one_line(
    capsys: pytest.CaptureFixture[str], log: str, options: list[str], message: str
) -> None:
    try:
        exit_code: object = main(["sim", "tune", log, *options])
    except SystemExit as end:
        exit_code = end.code

    (line,) = capsys.readouterr().err.splitlines()
    assert exit_code == 2
    assert message in line


def test_spread_keeps_both_ends() -> None:
    front = tune(workload(), CheapestAt(50), ThesisSpace(), candidates=200).front

    few: list[Tried] = tune_module.spread(front, 4)

    assert [few[0], few[-1], len(few)] == [front[0], front[-1], 4]
