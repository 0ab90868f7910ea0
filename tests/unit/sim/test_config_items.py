"""AWS Config's items in bills and advice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import PriceSheet, price_sheet
from burstcache_cli.cli import main
from burstcache_sim.bill.comparison import Billing
from burstcache_sim.bill.config_items import config_line, with_config_items
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.schedule import scheduled
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult

TODAY = price_sheet("today-us-east-1")
RECORDED = with_config_items(TODAY, Fraction("0.003"))
RUN = RunResult(
    n=0, n_s3=0, n_lambda=0, n_redis=0, lambda_ms=0, invocations=0, cold_starts=0, redis_s=3600, redis_starts=3,
    s3_requests=0, lambda_us_exact=0, redis_us_exact=0, end_us=0,
)  # fmt: skip


def recorded_usd(run: RunResult, node: str, prices: PriceSheet = RECORDED) -> Fraction | None:
    line = config_line(bill(live_usage(run, Setup(instance_type=node), period_us=24 * US_PER_H), prices))
    return line.usd_exact if line else None


def test_each_run_of_an_instance_is_two_items_and_of_a_task_six() -> None:
    """Three runs: an instance starts and stops, a task's interface comes and goes with its subnet and VPC."""
    assert recorded_usd(RUN, "t4g.micro") == 3 * 2 * Fraction(3, 1000)
    assert recorded_usd(RUN, "fargate-spot:2GB") == 3 * 6 * Fraction(3, 1000)
    assert recorded_usd(RUN, "fargate:2GB") == 3 * 6 * Fraction(3, 1000)


def test_nodes_that_never_start_are_not_recorded() -> None:
    assert recorded_usd(replace(RUN, redis_starts=0), "t4g.micro") is None


def test_without_a_price_no_bill_has_items() -> None:
    assert recorded_usd(RUN, "t4g.micro", TODAY) is None
    assert recorded_usd(RUN, "t4g.micro", with_config_items(TODAY, Fraction(0))) is None


@pytest.mark.slow
def test_a_rival_on_a_schedule_is_recorded_as_well() -> None:
    """Two days with requests in one and the same hour: each of two nodes runs twice, for two items a run."""
    minutes = [day * 24 * 60 + 9 * 60 + minute for day in (0, 1) for minute in range(60)]
    trace = Trace.of_times([0, *(minute * 60 * US_PER_S for minute in minutes), 48 * US_PER_H - 1])
    billing = Billing(RECORDED, Setup(), period_us=48 * US_PER_H, usd_per_hit=Fraction(1, 1000), same_objects=True)
    market = billing.market(trace)

    quote = scheduled(market, "2xt4g.nano")

    line = config_line(quote.bill)
    assert "1 hour of" in quote.note
    assert line is not None
    assert (line.quantity, line.usd_exact) == (8, 8 * Fraction(3, 1000))
    assert config_line(scheduled(replace(market, prices=TODAY), "2xt4g.nano").bill) is None


@pytest.fixture
def bursts(tmp_path: Path) -> str:
    """Write a day of two bursts, each of 20 requests a second for two minutes to the same ten objects."""
    path = tmp_path / "bursts.csv"
    times = [start + tick / 20 for start in (0, 43_200) for tick in range(2_400)]
    path.write_text("t,key,size\n" + "".join(f"{time:.6f},{i % 10},100000\n" for i, time in enumerate(times)))
    return str(path)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_bill_has_the_items_of_its_runs(printed: Callable[..., str], bursts: str) -> None:
    options = ("--policy", "breakeven", "--hit-value-usd", "1e-4", "--json")
    lines = {
        line["item"]: line
        for line in json.loads(printed("sim", "bill", bursts, *options, "--config-item-usd", "0.003"))["lines"]
    }
    without = json.loads(printed("sim", "bill", bursts, *options))["lines"]

    assert lines["AWS Config, items"]["usd"] == pytest.approx(2 * 2 * 0.003)
    assert "AWS Config, items" not in {line["item"] for line in without}


@pytest.mark.slow
def test_advice_names_what_is_recorded(printed: Callable[..., str], bursts: str) -> None:
    options = ["--hit-value-usd", "1e-4", "--period-hours", "24", "--policy", "breakeven", "--candidates", "8"]
    options += ["--node-kinds", "ec2", "--instance-type", "t4g.nano", "--readers", "internet"]
    said = printed("advise", bursts, *options, "--config-item-usd", "0.003")

    assert "configuration items of its nodes' runs" in said
    assert "AWS Config" not in printed("advise", bursts, *options)
