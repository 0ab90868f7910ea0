"""Kinds of nodes in `burstcache advise` and on the map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_cli.cli import main
from burstcache_sim.choose.map.cells import cells
from burstcache_sim.choose.map.loads import Load

OPTIONS = ("--hit-value-usd", "3e-5", "--policy", "breakeven", "--candidates", "1")
# Every rival but S3, so that the stack is the best buy.
WITHOUT = (
    *("reader-memory", "reader-memory-confirmed", "s3-express", "s3-express-all", "ec2", "ec2-scheduled", "fargate"),
    *("fargate-spot", "cloudfront", "efs", "elasticache-redis", "elasticache-valkey", "serverless-redis"),
    "serverless-valkey",
)


@pytest.fixture
def bursts(tmp_path: Path) -> str:
    """Return a log of three days with a burst of 20 minutes each."""
    random = np.random.default_rng(5)
    path = tmp_path / "bursts.csv"
    lines = ["t,key,size"]
    for day in range(3):
        times_s = 86_400 * day + np.cumsum(random.exponential(0.2, 6_000))
        keys = random.zipf(1.3, 6_000) % 500
        lines += [f"{at_s:.3f},{key},200000" for at_s, key in zip(times_s, keys, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def advised(capsys: pytest.CaptureFixture[str], bursts: str, *more: str) -> str:
    excluded = [part for name in WITHOUT for part in ("--without", name)]
    assert main(["advise", bursts, *OPTIONS, *excluded, *more]) == 0
    return " ".join(capsys.readouterr().out.split())


def found(capsys: pytest.CaptureFixture[str], bursts: str, *more: str) -> Any:
    return json.loads(advised(capsys, bursts, "--json", *more))


def test_the_cheaper_kind_of_node_is_chosen_and_the_answer_says_why(
    capsys: pytest.CaptureFixture[str], bursts: str
) -> None:
    """A task on Spot costs less than half of the smallest instance, without a volume."""
    text = advised(capsys, bursts, "--node-kinds", "ec2", "fargate-spot")
    assert "Kind of node: fargate-spot:0.5GB costs" in text
    assert "the best stack on ec2, t4g.nano costs" in text


def test_the_parameters_deploy_the_node_of_the_answer(capsys: pytest.CaptureFixture[str], bursts: str) -> None:
    """A task has a kind and a memory, an instance has a type."""
    text = advised(capsys, bursts)
    assert 'RedisOn="fargate-spot" RedisTaskMemoryGb="0.5"' in text.replace("\\ ", "")
    assert "RedisInstanceType" not in text
    on_ec2 = found(capsys, bursts, "--node-kinds", "ec2")
    assert on_ec2["parameter_overrides"]["RedisInstanceType"] == on_ec2["burstcache"]["instance_type"] == "t4g.nano"
    assert on_ec2["parameter_overrides"]["RedisOn"] == "ec2"


def test_both_kinds_that_can_be_cheapest_are_the_default(capsys: pytest.CaptureFixture[str], bursts: str) -> None:
    """A task on demand costs more than an instance of its memory."""
    usual = found(capsys, bursts)
    assert usual == found(capsys, bursts, "--node-kinds", "ec2", "fargate-spot")
    assert usual["burstcache"]["instance_type"] == "fargate-spot:0.5GB"
    on_ec2 = found(capsys, bursts, "--node-kinds", "ec2")["burstcache"]
    assert usual["burstcache"]["net_usd_per_month"] > on_ec2["net_usd_per_month"]


def test_interruptions_take_value_from_a_node_on_spot(capsys: pytest.CaptureFixture[str], bursts: str) -> None:
    """As far as they hit its runs."""
    spot = ("--node-kinds", "fargate-spot", "--interruptions-per-hour")
    never, often = (found(capsys, bursts, *spot, rate)["burstcache"] for rate in ("0", "20"))
    assert often["net_usd_per_month"] < never["net_usd_per_month"]


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str], bursts: str) -> None:
    """The message names the kinds."""
    assert main(["advise", bursts, "--node-kinds", "spot"]) == 2
    assert "ec2, fargate, fargate-spot" in capsys.readouterr().err


def test_more_kinds_never_make_a_cell_of_the_map_dearer() -> None:
    """The cheaper node is a task on Spot, and no rival changes."""
    prices, load = price_sheet("today-us-east-1"), Load(1.0, 0.1, 10.0)
    ((before,), (after,)) = (
        tuple(cells(prices, [load], [10.0], kinds)) for kinds in (("ec2",), ("ec2", "fargate-spot"))
    )
    assert after.ours.usd <= before.ours.usd
    assert "fargate-spot" in after.ours.note
    assert before.any_rival == after.any_rival


def test_the_map_interrupts_nodes_on_spot_of_both_sides_at_the_rate_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load all day, for which both have a task that is always on. Caches that are emptied lose hits."""
    load, written = Load(1.0, 1.0, 1.0), list[Any]()

    def keep(every: list[Any], _: Path) -> list[Path]:
        written.extend(every)
        return []

    monkeypatch.setattr("burstcache_sim.commands.map.all_loads", lambda: [load])
    monkeypatch.setattr("burstcache_sim.commands.map.VALUES_USD_PER_MILLION", (100.0,))
    monkeypatch.setattr("burstcache_sim.commands.map.write_map", keep)

    def cell(*options: str) -> Any:
        assert main(["research", "map", "--node-kinds", "fargate-spot", *options]) == 0
        return written.pop()

    never, usual, other = cell("--interruptions-per-hour", "0"), cell(), cell("--interruption-seed", "2")
    often = cell("--interruptions-per-hour", "0.1")

    assert "fargate-spot" in never.ours.note
    assert "fargate-spot" in never.any_rival.name
    for buyer in ("ours", "any_rival"):
        of_never, of_usual, of_often, of_other = (getattr(one, buyer).usd for one in (never, usual, often, other))
        assert of_never < of_usual <= of_often
        assert of_other == pytest.approx(of_usual, rel=0.1)
    assert usual.ours.usd < often.ours.usd
    assert other.ours.usd != usual.ours.usd
    assert usual.coherent == never.coherent
