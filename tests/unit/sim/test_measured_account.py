"""`--measured` replaces assumed delays, latencies and prices by those of an account, and only those it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.commands import arguments
from burstcache_sim.commands.inputs import cache_of, clock_of
from burstcache_sim.commands.measured import prices_of
from burstcache_sim.commands.run import _run
from burstcache_sim.latency import TODAYS_LATENCIES
from burstcache_sim.world.timings import THESIS_TIMINGS, node_timings
from burstcache_terminal.options import Parser

_TRACE = "arrival_s\n" + "".join(f"{second}\n" for second in range(200))


def parsed(command: str, path: Path, measured: Any, *further: str) -> Any:
    (path / "trace.csv").write_text(_TRACE)
    (path / "evidence.json").write_text(json.dumps({"measured": measured}))
    parser = Parser()
    getattr(arguments, command)(parser)
    words = [str(path / "trace.csv"), "--measured", str(path / "evidence.json")]
    return parser.parse([*words, *further])


def test_boots_stops_and_the_nearest_cold_start_are_measured(tmp_path: Path) -> None:
    measured = {"boot_s": {"ec2": 51.5}, "stop_s": {"ec2": 9}, "cold_start_ms": {"128": 900, "512": 250, "1769": 100}}
    args = parsed("run", tmp_path, measured, "--policy", "thesis", "--cache-memory-mb", "600")
    times = cache_of(args, prices_of(args)).node_times

    found = node_timings("ec2", times)

    assert (found.redis_boot_us, found.redis_stop_us, found.cold_start_us) == (51_500_000, 9_000_000, 250_000)
    assert found.warm_start_us == THESIS_TIMINGS.warm_start_us
    assert node_timings("fargate", times).redis_boot_us == node_timings("fargate").redis_boot_us


def test_a_measured_boot_changes_a_run(tmp_path: Path) -> None:
    often = ("--policy", "thesis", "--rate", "9", "--sensitivity", "1")
    quick, slow = (
        _run(args, prices_of(args))
        for boot_s in (1, 50)
        for args in [parsed("run", tmp_path, {"boot_s": {"ec2": boot_s}}, *often)]
    )

    assert quick["n_redis"] > slow["n_redis"]


def test_latencies_are_measured_unless_an_option_names_them(tmp_path: Path) -> None:
    measured = {
        "s3_ms": 31.0,
        "lambda_ms": 2.5,
        "express_ms": 7.0,
        "s3_by_size_ms": {"1024": 30.0, "1048576": 40.0, "4000000": 90.0},
    }
    clock = clock_of(parsed("advise", tmp_path, measured, "--lambda-ms", "3"))

    assert (clock.tiers.s3_ms, clock.tiers.lambda_ms, clock.tiers.redis_ms) == (31.0, 3.0, TODAYS_LATENCIES.redis_ms)
    assert clock.first_byte_ms("s3-express") == 7.0 + clock.front_door_ms
    assert clock.s3_mb_per_s == pytest.approx((1_047_552 / 10 / 1e3, 2_951_424 / 50 / 1e3))


def test_without_measurements_all_stays_as_assumed(tmp_path: Path) -> None:
    args = parsed("advise", tmp_path, {})
    without = clock_of(args)

    assert without.tiers == TODAYS_LATENCIES
    assert without.s3_mb_per_s == (270.0, 85.0)
    assert args.node_times == "usual"


def test_measured_prices_replace_rows_of_the_sheet(tmp_path: Path) -> None:
    prices = prices_of(parsed("run", tmp_path, {"prices": {"transition": 0.00003}}, "--policy", "thesis"))

    assert float(prices.usd("transition")) == 0.00003
    assert float(prices.usd("s3-get")) == 0.0000004


@pytest.mark.parametrize("content", ["{", "[]", '{"measured": 3}'])
def test_a_file_without_measurements_is_refused(content: str, tmp_path: Path) -> None:
    args = parsed("run", tmp_path, {}, "--policy", "thesis")
    args.measured.write_text(content)

    with pytest.raises(InvalidSettingError, match="--measured"):
        prices_of(args)
