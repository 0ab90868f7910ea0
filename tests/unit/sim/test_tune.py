"""The search: what it finds, what it can be trusted with, and what `burstcache sim tune` prints."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from burstcache.core.parameters import Parameters, parameters_from_text
from burstcache.core.prices import price_sheet
from burstcache_cli.cli import main
from burstcache_sim.bill.comparison import own_bill
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import policy_prices, thesis_setup
from burstcache_sim.choose.tune import search as tune_module
from burstcache_sim.choose.tune.candidates import ThesisSpace, WorthSpace, overrides_text, seconds_text
from burstcache_sim.choose.tune.front import Tried, pareto_front, spread
from burstcache_sim.choose.tune.hold_out import hold_out
from burstcache_sim.choose.tune.objectives import CheapestAt, MostHitsFor
from burstcache_sim.choose.tune.search import tune
from burstcache_sim.choose.tune.workload import Workload, workload_of
from burstcache_sim.policies.node_use import Breakeven
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from support.runs import run

PRICES = price_sheet("today-us-east-1")
STANDING_USD = 18  # a month of balancer and relay costs a little more


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
    usual = load.replay([Thesis.configured(9, 4)])[0]

    best = tune(load, CheapestAt(usual.in_memory_pct), ThesisSpace(), candidates=300).best

    assert best is not None
    assert best.in_memory_pct >= usual.in_memory_pct
    assert best.usd_per_month <= load.usd_per_month(usual)


@pytest.mark.slow
def test_a_bill_is_kept_and_more_money_never_buys_fewer_hits() -> None:
    load = workload()

    found = [tune(load, MostHitsFor(usd), ThesisSpace(), candidates=300).best for usd in (19.5, 20, 60)]

    assert all(best and best.usd_per_month <= usd for best, usd in zip(found, (19.5, 20, 60), strict=True))
    shares = [best.in_memory_pct for best in found if best]
    assert shares == sorted(shares)
    assert shares[-1] > 90


def test_what_was_tried_is_what_the_readable_simulator_and_the_bill_say() -> None:
    load = workload()
    knob = WorthSpace(Breakeven, policy_prices(PRICES, thesis_setup(PRICES)))

    for best in (tune(load, CheapestAt(50), space, candidates=60).best for space in (ThesisSpace(), knob)):
        assert best is not None
        readable = run(load.trace.arrivals_us, best.policy)
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


# What is recommended: plain, and checked on requests that it was not chosen by


def test_of_what_is_as_good_as_the_best_the_plainest_is_recommended() -> None:
    space, objective = ThesisSpace(), CheapestAt(80)

    tuned = tune(workload(), objective, space, candidates=300)

    assert tuned.best is not None
    assert objective.is_as_good(tuned.best, tuned.closest)
    assert tuned.best.text.count("=") < tuned.closest.text.count("=")
    for point in space.plainer(tuned.best.point):
        load = workload()
        (result,) = load.replay([space.policy(point)])
        misses = result.in_memory_pct < 80
        assert misses or load.usd_per_month(result) > 1.01 * tuned.closest.usd_per_month


def test_within_one_per_cent_is_as_good_and_beyond_is_not() -> None:
    best = tune(workload(), MostHitsFor(60), ThesisSpace(), candidates=60).closest
    share = best.in_memory_pct

    def at(usd_per_month: float, n_s3: int) -> Tried:
        in_memory = replace(best.result, n_s3=n_s3, n_lambda=best.result.n - n_s3, n_redis=0)
        return replace(best, usd_per_month=usd_per_month, result=in_memory)

    usd, n_s3 = best.usd_per_month, best.result.n_s3
    assert CheapestAt(share).is_as_good(at(usd * 1.009, n_s3), best)
    assert not CheapestAt(share).is_as_good(at(usd * 1.011, n_s3), best)
    assert not CheapestAt(share).is_as_good(at(usd, n_s3 + 1), best)
    assert MostHitsFor(usd).is_as_good(at(usd, n_s3 + 1), best)
    assert not MostHitsFor(usd).is_as_good(at(usd, n_s3 + 10), best)
    assert not MostHitsFor(usd).is_as_good(at(usd * 1.001, n_s3), best)


def test_parameters_tuned_on_the_first_half_are_judged_by_the_second() -> None:
    """Busy in the first half, seldom in the second: what the first half teaches is wrong there."""
    gaps_us = np.concatenate((np.full(800, 5_000_000), np.full(130, 30_000_000)))
    load, objective = workload(Trace(gaps_us.cumsum())), MostHitsFor(200)

    found = hold_out(load, lambda _: objective, ThesisSpace(), candidates=200)

    assert found is not None
    assert found.workload.demand.requests < len(load.trace) / 2
    assert found.workload.repeats_per_month == pytest.approx(2 * load.repeats_per_month)
    assert found.tuned_before.result.n == found.tuned_on_it.result.n == found.workload.demand.requests
    assert objective.rank(found.tuned_on_it) <= objective.rank(found.tuned_before)
    assert found.tuned_before.in_memory_pct < found.tuned_on_it.in_memory_pct
    assert found.usual is not None
    assert found.usual.text == ""


def test_a_log_with_few_requests_in_one_half_says_nothing_about_the_other() -> None:
    times_us = np.concatenate((np.arange(500) * 1_000_000, [10_000_000_000]))

    assert hold_out(workload(Trace(times_us)), lambda _: CheapestAt(50), ThesisSpace(), candidates=20) is None


def test_objects_too_large_for_a_cache_are_never_replayed_and_always_billed() -> None:
    times_us = np.arange(300) * 1_000_000
    ids, sizes = (np.arange(300) % 3).astype(np.int32), np.full(300, 10_000)
    sizes[ids == 2] = 0
    sizes[2] = 4_194_305  # said once: the others of this object were answered with 304
    load = workload(Trace(times_us, ids, sizes, ("a", "b", "c")))
    usual = Thesis.configured(9, 4)

    small, detailed = load.replay([usual])[0], load.replay_in_detail(usual)

    assert load.redirected == 100
    assert (small.n, small.n_s3 >= 100, small.in_memory_pct <= 67) == (300, True, True)
    assert (small.n_s3, small.s3_requests) == (detailed.n_s3, detailed.s3_requests)
    assert (load.own_demand.stored_bytes, load.demand.stored_bytes) == (20_000, 4_214_305)
    assert load.own_demand.metered_512kb == 300 < load.demand.metered_512kb
    assert workload(load.trace, only_cache=True).redirected == 0


def test_a_log_of_nothing_but_too_large_objects_is_served_by_s3() -> None:
    load = workload_of(bursts(), PRICES, Setup(object_bytes=5_000_000))

    tuned = tune(load, CheapestAt(0), ThesisSpace(), candidates=20)

    assert tuned.best is not None
    assert tuned.best.result.n_s3 == tuned.best.result.n == len(load.trace)
    assert tuned.best.usd_per_month > STANDING_USD


def test_many_objects_share_the_node_and_only_the_cache_costs_less() -> None:
    one = bursts()
    many = Trace(one.arrivals_us, np.arange(len(one), dtype=np.int32) % 3, None, ("a", "b", "c"))

    shared = tune(workload(many), CheapestAt(50), ThesisSpace(), candidates=60).best
    cache = tune(workload(many, only_cache=True), CheapestAt(50), ThesisSpace(), candidates=60).best

    assert shared is not None
    assert cache is not None
    assert shared.usd_per_month > STANDING_USD > cache.usd_per_month


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
    space, random = WorthSpace(Breakeven, policy_prices(PRICES, thesis_setup(PRICES))), Random(3)
    points = space.start(50, random)
    points += [space.near(point, 5.0, random) for point in points for _ in range(3)]

    assert all(1e-9 <= value <= 1 for (value,) in points)
    assert {space.policy(point).parameters.key.ever_starts for point in points} == {True, False}


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
    assert f"Pareto front ({len(rows)} candidates that no other beats in both cost and hits):" in lines
    assert float(rows[0]["usd_per_month"]) < float(rows[-1]["usd_per_month"])


def test_a_policy_by_use_is_named_with_its_hit_value_as_the_template_takes_it(
    capsys: pytest.CaptureFixture[str], log: str
) -> None:
    options = ["--policy", "breakeven", "--in-memory-pct", "80", "--candidates", "50"]

    assert main(["sim", "tune", log, *options]) == 0

    said = capsys.readouterr().out
    found = re.search(
        r"--hit-value-usd: (\S+)\n  In the template: Policy breakeven, HitValueUsdPerMillion ([\d.,]+)", said
    )
    assert found
    assert float(found[2].replace(",", "")) == pytest.approx(1e6 * float(found[1]), rel=0.01)


def test_an_objective_out_of_reach_is_one_line_with_what_is_possible(
    capsys: pytest.CaptureFixture[str], log: str
) -> None:
    assert main(["sim", "tune", log, "--usd-per-month", "3", "--candidates", "50"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "3 USD a month cannot be met: the cheapest candidate has " in err


def test_a_share_beyond_what_first_requests_leave_is_reported_as_out_of_reach(
    capsys: pytest.CaptureFixture[str], log: str
) -> None:
    assert main(["sim", "tune", log, "--in-memory-pct", "100", "--candidates", "50"]) == 1

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "; the limit is 99.58 %, because first requests for objects always go to S3" in err


@pytest.mark.slow
def test_how_well_parameters_last_is_printed_and_in_the_json(capsys: pytest.CaptureFixture[str], log: str) -> None:
    options = ["--in-memory-pct", "50", "--candidates", "100"]

    assert main(["sim", "tune", log, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["sim", "tune", log, *options, "--json"]) == 0
    lasting = json.loads(capsys.readouterr().out)["lasting"]

    start = lines.index(next(line for line in lines if line.startswith("Check for overfitting (results")))
    table = lines[start + 2 : start + 5]
    assert [row["tuned_on"] for row in lasting] == [line.split("  ")[0] for line in table]
    assert len({len(line) for line in lines[start + 1 : start + 5]}) == 1  # aligned
    assert lasting[1]["usd_per_month"] <= lasting[0]["usd_per_month"] or lasting[0]["in_memory_pct"] < 50


def test_a_log_too_short_to_check_is_reported_as_such(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("arrival_s\n" + "".join(f"{at_s}\n" for at_s in range(0, 300, 3)))

    assert main(["sim", "tune", str(path), "--in-memory-pct", "50", "--candidates", "50"]) == 0

    said = " ".join(capsys.readouterr().out.split())
    assert "cannot be checked: one half of the log has fewer than 100 requests" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--in-memory-pct", "101"], "--in-memory-pct '101': expected a number from 0 to 100"),
        (["--usd-per-month", "nan"], "--usd-per-month 'nan': expected an amount of at least 0"),
        (["--usd-per-month", "1e999"], "--usd-per-month '1e999': expected an amount of at least 0"),
        (["--usd-per-month", "9", "--period-hours", "1e9"], "--period-hours: expected at most 876000"),
        (["--usd-per-month", "9", "--in-memory-pct", "9"], "not allowed with argument"),
        (["--usd-per-month", "9", "--candidates", "0"], "--candidates '0': expected a whole number of at least 1"),
        (
            ["--usd-per-month", "9", "--csv", "/nowhere/front.csv"],
            "--csv /nowhere/front.csv: expected a file that can be",
        ),
        ([], "one of the arguments --in-memory-pct --usd-per-month is required"),
    ],
)
def test_a_wrong_call_ends_with_two_and_one_line(
    capsys: pytest.CaptureFixture[str], log: str, options: list[str], message: str
) -> None:
    exit_code = main(["sim", "tune", log, *options])

    (line,) = capsys.readouterr().err.splitlines()
    assert exit_code == 2
    assert message in line


def test_spread_keeps_both_ends() -> None:
    front = tune(workload(), CheapestAt(50), ThesisSpace(), candidates=200).front

    few: list[Tried] = spread(front, 4)

    assert [few[0], few[-1], len(few)] == [front[0], front[-1], 4]
