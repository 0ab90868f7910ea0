"""Bills of nodes that are tasks on Fargate."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from burstcache.core.node_kinds import NODE_KINDS
from burstcache.core.parameters import US_PER_S, Parameters
from burstcache.core.prices import price_sheet
from burstcache_cli.cli import main
from burstcache_sim.bill.cost import bill
from burstcache_sim.bill.nodes import GIB, node_capacity_bytes
from burstcache_sim.bill.scenarios import interruptions_of
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import policy_prices
from burstcache_sim.bill.usage import live_usage
from burstcache_sim.policies.registry import WORTH_POLICIES
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.interruptions import ASSUMED_PER_H, Interruptions
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.timings import THESIS_TIMINGS, NodeTimes, node_timings

NOTHING = RunResult(
    n=0, n_s3=0, n_lambda=0, n_redis=0, lambda_ms=0, invocations=0, cold_starts=0, redis_s=0, redis_starts=0,
    s3_requests=0, lambda_us_exact=0, redis_us_exact=0, end_us=0,
)  # fmt: skip
TODAY = price_sheet("today-us-east-1")
SPOT = Setup(instance_type="fargate-spot:2GB", relay="none")
HOUR = replace(NOTHING, redis_starts=1, redis_s=3600, redis_spans_us=((0, US_PER_H),), redis_us_exact=US_PER_H)


def lines_usd(result: RunResult, setup: Setup) -> dict[str, Fraction]:
    return {line.text: line.usd_exact for line in bill(live_usage(result, setup, period_us=24 * US_PER_H), TODAY).lines}


def test_a_run_is_billed_by_hand() -> None:
    """An hour and the 9 s around it, at a quarter of a vCPU and 2 GB."""
    usd = lines_usd(HOUR, SPOT)
    assert usd["Redis node fargate-spot:2GB, processor"] == Fraction(3609, 3600) * Fraction("0.01034") / 4
    assert usd["Redis node fargate-spot:2GB, memory"] == Fraction(3609, 3600) * Fraction("0.00114") * 2


def test_a_short_run_is_billed_a_minute() -> None:
    """A run of a second costs as much as a run of 51 s, and 52 s cost more."""

    def memory_usd(seconds: int) -> Fraction:
        run = replace(HOUR, redis_spans_us=((0, seconds * US_PER_S),))
        return lines_usd(run, SPOT)["Redis node fargate-spot:2GB, memory"]

    assert memory_usd(1) == memory_usd(51) == Fraction(60, 3600) * Fraction("0.00114") * 2
    assert memory_usd(52) > memory_usd(51)


def test_an_idle_task_costs_nothing() -> None:
    """There is no volume, whereas an idle instance keeps its own."""
    volume = "volume of the node"
    assert not [text for text in lines_usd(NOTHING, SPOT) if "node" in text]
    assert volume in lines_usd(NOTHING, replace(SPOT, instance_type="t4g.micro"))
    assert volume not in lines_usd(HOUR, SPOT)


def test_a_task_has_a_public_address_only_where_the_network_needs_one() -> None:
    """The address is billed while the task runs."""
    address = "Redis node fargate-spot:2GB, public IPv4 address"
    assert address not in lines_usd(HOUR, SPOT)
    assert lines_usd(HOUR, replace(SPOT, relay_ipv4=True))[address] == Fraction(3609, 3600) * TODAY.usd("ipv4")
    assert not any(
        "IPv4" in text for text in lines_usd(HOUR, replace(SPOT, instance_type="t4g.micro", relay_ipv4=True))
    )


def test_a_simulated_policy_weighs_a_task_by_the_price_that_the_bill_has() -> None:
    """The public address doubles the price."""
    public = replace(SPOT, relay_ipv4=True)
    usd_per_s = policy_prices(TODAY, public).redis_usd_per_s

    assert usd_per_s == policy_prices(TODAY, SPOT).redis_usd_per_s + TODAY.usd("ipv4") / 3600
    assert 3609 * usd_per_s == sum(usd for text, usd in lines_usd(HOUR, public).items() if "Redis node" in text)


def test_three_quarters_of_a_task_hold_objects() -> None:
    """As on an instance."""
    assert node_capacity_bytes("fargate-spot:2GB") == GIB * 3 // 2


@pytest.fixture
def burst(tmp_path: Path) -> str:
    """Return a log of an hour of one hot object."""
    path = tmp_path / "burst.csv"
    path.write_text("arrival_s\n" + "".join(f"{tenth / 10}\n" for tenth in range(36_000)))
    return str(path)


def billed(capsys: pytest.CaptureFixture[str], burst: str, node: str) -> set[str]:
    options = ("--policy", "breakeven", "--hit-value-usd", "1e-5", "--instance-type", node, "--json")
    assert main(["sim", "bill", burst, *options]) == 0
    return {line["item"] for line in json.loads(capsys.readouterr().out)["lines"]}


def test_the_command_takes_a_task_wherever_it_takes_an_instance_type(
    capsys: pytest.CaptureFixture[str], burst: str
) -> None:
    """The bill and the comparison name the task."""
    assert "Redis node fargate-spot:2GB, memory" in billed(capsys, burst, "fargate-spot:2GB")
    assert {"Redis node t4g.micro", "volume of the node"} <= billed(capsys, burst, "t4g.micro")
    assert main(["sim", "compare", burst, "--instance-type", "fargate:1GB", "--against", "perfect-automation"]) == 0
    assert "perfect-automation:fargate:1GB" in capsys.readouterr().out


def test_the_command_refuses_a_size_that_is_not_sold(capsys: pytest.CaptureFixture[str], burst: str) -> None:
    """The message names the sizes."""
    assert main(["sim", "bill", burst, "--instance-type", "fargate-spot:7GB"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'fargate-spot:7GB'" in line
    assert "0.5GB, 1GB, 2GB" in line


def test_the_kind_decides_how_long_a_boot_takes() -> None:
    """35 s on Fargate, 30 s on EC2, and the runs of the thesis for both by name."""
    every: tuple[NodeTimes, ...] = ("usual", "thesis-runs", "tail")
    boots_s = {
        (kind, times): node_timings(kind, times).redis_boot_us // US_PER_S for kind in NODE_KINDS for times in every
    }
    assert [boots_s[kind, "usual"] for kind in NODE_KINDS] == [30, 35, 35]
    assert [boots_s[kind, "tail"] for kind in NODE_KINDS] == [30, 90, 90]
    assert {boots_s[kind, "thesis-runs"] for kind in NODE_KINDS} == {37}
    assert node_timings("ec2") == THESIS_TIMINGS


def test_only_a_policys_nodes_on_spot_are_interrupted() -> None:
    """Instances, tasks at the full price and the thesis's policy are not."""
    breakeven, thesis = WORTH_POLICIES["breakeven"].worth(Fraction("1e-5")), Thesis(Parameters(1, 2, 1, 4, 1))
    assert interruptions_of(SPOT, breakeven) == Interruptions(ASSUMED_PER_H)
    assert interruptions_of(SPOT, thesis) is None
    for name in ("t4g.micro", "fargate:2GB"):
        assert interruptions_of(replace(SPOT, instance_type=name), breakeven) is None


def test_interruptions_make_a_bill_of_more_boots(capsys: pytest.CaptureFixture[str], burst: str) -> None:
    """The same seed gives the same bill."""
    options = ("--policy", "breakeven", "--hit-value-usd", "1e-4", "--instance-type", "fargate-spot:2GB", "--json")

    def in_memory_pct(*more: str) -> float:
        assert main(["sim", "bill", burst, *options, *more]) == 0
        return float(json.loads(capsys.readouterr().out)["in_memory_pct"])

    never, often = in_memory_pct("--interruptions-per-hour", "0"), in_memory_pct("--interruptions-per-hour", "20")
    assert often < never
    assert often == in_memory_pct("--interruptions-per-hour", "20", "--interruption-seed", "1")
    assert often != in_memory_pct("--interruptions-per-hour", "20", "--interruption-seed", "2")
